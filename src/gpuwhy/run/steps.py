"""The steps of a process, on the host's clock and on the device's, and its real throughput.

Steps run from one mark of their anchor to the next. Those in which gpuwhy's own profiler was on, and those of start-up,
are not the program's usual ones and are judged apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import by_value, quantiles
from gpuwhy.intervals import ranges, running_end
from gpuwhy.probe import format as kinds
from gpuwhy.run.journals import MOST, Journal
from gpuwhy.run.spans import Spans, common, covered, joined, spans_of

STARTUP_RATIO, STARTUP_MOST = 2.0, 0.25
"""Leading steps longer than so many median steps are start-up, at most this part of all, and no more than"""
STARTUP_STEPS = 20
AFTER_PROFILE = 1
"""Steps after a profile that still feel it."""
AGREE = 0.9
"""Part of the steps that must have as many samples for the others to be taken to have as many."""
SPIKE = 2.0
"""A steady step of more than so many medians is a spike."""
MOST_SAMPLES = 1 << 40
"""In one batch: more is no number of samples."""
PACE = 0.1
"""The host keeps pace with the device if its time is off by no more than this part."""
Ns = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Steps:
    """Step i runs from `edge[i]` to `edge[i + 1]` (ns, CLOCK_MONOTONIC); `device_ns` is -1 where not measured."""

    anchor: int
    thread: int
    """Of the loop, as Python numbers it."""
    number: Ns
    edge: Ns
    device_ns: Ns
    lumped: NDArray[np.bool_]
    """The device's time was measured over several steps, and each has its part."""
    profiled: NDArray[np.bool_]
    startup: NDArray[np.bool_]
    samples: Ns
    """-1 where not known; `tokens` too."""
    tokens: Ns
    waited_ns: Ns
    """In the data loader."""
    evaluating_ns: Ns
    """In evaluation: no part of the step's time."""
    how_samples: str | None

    def __len__(self) -> int:
        return len(self.number)

    @cached_property
    def host_ns(self) -> Ns:
        """Each step's time on the host's clock, without evaluation: at least 1, where that is coarse."""
        return np.maximum(np.diff(self.edge) - self.evaluating_ns, 1)

    @cached_property
    def length(self) -> Ns:
        """Each step's time on the device's clock where it was measured: a host that runs ahead of the device is done
        with its first steps long before the device is.
        """
        device = np.maximum(self.device_ns - self.evaluating_ns, 1)
        return np.where(self.device_ns >= 0, device, self.host_ns)

    @cached_property
    def spread(self) -> Ns:
        """Each step's time for quantiles. Of steps that were measured together the host's clock tells them apart, as
        long as it keeps pace with the device.
        """
        together = self.lumped & self.steady
        host, device = float(self.host_ns[together].sum()), float(self.length[together].sum())
        keeps_pace = abs(host - device) <= PACE * device
        return np.where(self.lumped, self.host_ns, self.length) if keeps_pace else self.length

    @cached_property
    def steady(self) -> NDArray[np.bool_]:
        """Steps that tell what the program does by itself."""
        usual = ~(self.profiled | self.startup)
        measured = np.flatnonzero(self.device_ns >= 0)
        last = int(measured[-1]) + 1 if len(measured) else 0
        if usual[:last].any():  # of later ones, which the device may not have done yet, only the host's time is known
            usual[last:] = False
        return usual


def steps_of(journal: Journal) -> Steps | None:
    """The steps of a process by its best anchor; None where there are fewer than two marks."""
    anchors = [note for note in journal.noted("anchor") if _is_anchor(note)]
    if not anchors:
        return None
    anchor, first, thread = (int(anchors[-1][name]) for name in ("kind", "step", "thread"))
    edge = journal.steps[first:].astype(np.int64)
    if len(edge) < 2:
        return None
    number = np.arange(first, first + len(edge) - 1)
    profiled, (device, lumped) = _profiled(journal, edge), _device(journal, number)
    evaluated = evaluations(journal, anchor, edge, int(edge[-1]))
    samples, tokens, how = _work(journal, edge, thread, anchor, evaluated)
    loads, evaluation = joined(spans_of(in_thread(journal.of(kinds.LOADER), thread))), joined(evaluated)
    return Steps(
        anchor=anchor,
        thread=thread,
        number=number,
        edge=edge,
        device_ns=device,
        lumped=lumped,
        profiled=profiled,
        startup=_startup(np.where(device >= 0, device, np.diff(edge)), profiled),
        evaluating_ns=covered(edge, evaluation),
        samples=samples,
        tokens=tokens,
        waited_ns=covered(edge, loads) - covered(edge, common(loads, evaluation)),
        how_samples=how,
    )


def in_thread(records: NDArray[Any], thread: int) -> NDArray[Any]:
    """Records of one thread."""
    found: NDArray[Any] = records[records["thread"].astype(np.int64) == thread]
    return found


def evaluations(journal: Journal, anchor: int, edge: Ns, ended: int) -> Spans:
    """From when a training model is put into evaluation mode to when it trains again, or a step begins."""
    marks = journal.of(kinds.EVALUATION)
    marks = marks[np.argsort(marks["start"], kind="stable")]
    if anchor != kinds.OPTIMIZER or not len(marks):
        return np.empty((0, 2), np.int64)
    start = marks["start"].astype(np.int64)
    # After the last step there is none to end it: it lasts as long as batches come.
    batches = journal.of(kinds.LOADER)["end"]
    last = min(int(batches.max()) if len(batches) else 0, ended)
    following = np.append(start[1:], ended)
    bound = np.append(edge, last)[np.searchsorted(edge, start, side="right")]
    found = np.stack([start, np.minimum(following, bound)], axis=1)
    during = (marks["value"] > 0) & (start >= edge[0])
    return np.asarray(found[during & (found[:, 1] > found[:, 0])])


def _is_anchor(note: dict[str, Any]) -> bool:
    return all(name in note for name in ("kind", "step", "thread")) and note["kind"] in kinds.ANCHORS


def _device(journal: Journal, number: Ns) -> tuple[Ns, NDArray[np.bool_]]:
    """The device's time of each step, and whether it is a part of that of several."""
    told = journal.of(kinds.DEVICE)
    most = len(journal.steps)
    told = told[(told["start"] > 0) & (told["start"] <= most) & (told["value"] >= 0) & (told["value"] <= most)]
    told = told[(told["more"] >= 0) & (told["value"] >= running_end(told["value"] + told["start"]))]
    found, lumped = np.full(len(number), -1, np.int64), np.zeros(len(number), bool)
    if float(told["more"].astype(np.float64).sum()) > MOST:
        return found, lumped
    count = told["start"].astype(np.int64)
    step = ranges(told["value"] - number[0], count)
    inside = np.flatnonzero((step >= 0) & (step < len(number)))
    found[step[inside]] = np.repeat(told["more"] // count, count)[inside]
    lumped[step[inside]] = np.repeat(count > 1, count)[inside]
    return found, lumped


def _profiled(journal: Journal, edge: Ns) -> NDArray[np.bool_]:
    """Steps from the first sign of a profile to the step after its last one."""
    marks = journal.of(kinds.PROFILE)
    change = np.zeros(len(edge) + AFTER_PROFILE + 1, np.int64)
    for _, rows in by_value(marks["more"]):
        begun, stopped = int(marks["start"][rows].min()), int(marks["end"][rows].max())
        if len(rows) == 1:
            stopped = _given_up(journal, begun, int(edge[-1]))
        first, last = (int(np.searchsorted(edge, time, side="right")) - 1 for time in (begun, stopped))
        change[max(first, 0)] += 1
        change[last + 1 + AFTER_PROFILE] -= 1
    return np.asarray(np.cumsum(change)[: len(edge) - 1] > 0)


def _given_up(journal: Journal, begun: int, otherwise: int) -> int:
    """When a profile ended that was begun and never written: as the program began one of its own, or with it."""
    times = [note["t"] for what in ("aside", "failed") for note in journal.noted(what) if "t" in note]
    return min((time for time in times if time >= begun), default=max(otherwise, begun))


def _startup(length: Ns, profiled: NDArray[np.bool_]) -> NDArray[np.bool_]:
    found = np.zeros(len(length), bool)
    if not (~profiled).any():
        return found
    most = max(min(int(STARTUP_MOST * len(length)), STARTUP_STEPS), 1)
    slow = length > STARTUP_RATIO * quantiles(length[~profiled], (0.5,))[0]
    found[: int(np.argmin(np.append(slow[:most], False)))] = True
    if len(length) > 1:
        found[0] = True  # what is set up once is set up there
    return found


def _work(journal: Journal, edge: Ns, thread: int, anchor: int, evaluated: Spans) -> tuple[Ns, Ns, str | None]:
    """Samples and tokens of each step, and how samples were found."""
    if anchor == kinds.TOKEN:
        return np.full(len(edge) - 1, -1, np.int64), _generated(journal, edge), None
    of, at, inside, how = _batches(journal, edge, thread, anchor, evaluated)
    samples, tokens = (_summed(of[name][inside], at, len(edge) - 1) for name in ("value", "more"))
    return samples, tokens, how if (samples >= 0).any() else None


def _batches(
    journal: Journal, edge: Ns, thread: int, anchor: int, evaluated: Spans
) -> tuple[NDArray[Any], Ns, NDArray[np.bool_], str | None]:
    """Records that tell samples, the steps of those inside of any, which those are, and how they tell."""
    calls = journal.of(kinds.FORWARD)
    told = calls[calls["detail"] == kinds.USER]
    if len(told):
        return told, *_place(edge, told["start"] - 1), "gpuwhy.step(samples=…)"
    loads = _training(in_thread(journal.of(kinds.LOADER), thread), evaluated)
    at, inside = _place(edge, loads["end"])
    if np.count_nonzero(loads["value"][inside] >= 0) >= (len(edge) - 1) / 2:
        return loads, at, inside, "the first dimension of what the data loader gave"
    how = "the first dimension of the model's first argument"
    if anchor == kinds.OPTIMIZER:  # calls are watched up to its first step: all that train belong to one step
        calls = calls[(calls["flags"] & kinds.GRAD != 0) & (calls["start"] < edge[0])]
        return calls, np.zeros(len(calls), np.int64), np.ones(len(calls), bool), how
    if anchor == kinds.CALL:  # what other models are called with in the same turn are no more samples
        calls = calls[np.append(edge, -1)[np.searchsorted(edge, calls["start"])] == calls["start"]]
    return calls, *_place(edge, calls["start"]), how


def _training(loads: NDArray[Any], evaluated: Spans) -> NDArray[Any]:
    """Batches that did not come while a model was evaluated: nothing is learnt from those."""
    row = np.searchsorted(evaluated[:, 0], loads["end"], side="right") - 1
    ends = np.append(evaluated[:, 1], -1)[row]  # row -1: before any
    found: NDArray[Any] = loads[loads["end"] > ends]
    return found


def _summed(values: Ns, at: Ns, count: int) -> Ns:
    """The sum for each step of what lies in it."""
    total, known = np.full(count, -1, np.int64), (values >= 0) & (values <= MOST_SAMPLES)
    total[at[known]] = 0
    np.add.at(total, at[known], values[known])
    return _filled(total)


def _filled(values: Ns) -> Ns:
    """Steps of which nothing was seen have what nearly all others have, if there is such a number."""
    known = np.sort(values[values >= 0])
    if not len(known):
        return values
    usual = known[len(known) // 2]
    return np.where(values < 0, usual, values) if (known == usual).mean() >= AGREE else values


def _generated(journal: Journal, edge: Ns) -> Ns:
    """New tokens of each step: those of a call of `generate` lie evenly over its steps."""
    told = journal.of(kinds.GENERATE)
    told = told[np.argsort(told["start"], kind="stable")]
    told = told[(told["more"] >= 0) & (told["more"] <= MOST_SAMPLES) & (told["start"] >= running_end(told["end"]))]
    first, last = (np.searchsorted(edge, told[name], side="left") for name in ("start", "end"))
    count = (last - first).astype(np.int64)
    new, first, count = (each[count > 0] for each in (told["more"], first, count))
    step = ranges(first, count)
    left = np.repeat(new % count, count)
    found = np.full(len(edge), -1, np.int64)
    found[step] = np.repeat(new // count, count) + (step - np.repeat(first, count) < left)
    return found[:-1]


def _place(edge: Ns, time: Ns) -> tuple[Ns, NDArray[np.bool_]]:
    """The step of each time, and which times lie in any."""
    at = np.searchsorted(edge, time, side="right") - 1
    inside = (at >= 0) & (at < len(edge) - 1)
    return at[inside].astype(np.int64), np.asarray(inside)
