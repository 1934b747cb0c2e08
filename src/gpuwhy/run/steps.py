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

from gpuwhy.arrays import quantiles, unique
from gpuwhy.probe import format as kinds
from gpuwhy.run.journals import Journal

STARTUP_RATIO, STARTUP_MOST = 2.0, 0.25
"""Leading steps longer than so many median steps are start-up, at most this part of all."""
AFTER_PROFILE = 1
"""Steps after a profile that still feel it."""
SPIKE = 2.0
"""A steady step of more than so many medians is a spike."""
Ns = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Steps:
    """Step i runs from `edge[i]` to `edge[i + 1]` (ns, CLOCK_MONOTONIC); `device_ns` is -1 where not measured."""

    anchor: int
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
    how_samples: str | None

    def __len__(self) -> int:
        return len(self.number)

    @cached_property
    def host_ns(self) -> Ns:
        """Each step's time on the host's clock."""
        return np.diff(self.edge)

    @cached_property
    def length(self) -> Ns:
        """Each step's time on the device's clock where it was measured: a host that runs ahead of the device is done
        with its first steps long before the device is.
        """
        return np.where(self.device_ns >= 0, self.device_ns, self.host_ns)

    @cached_property
    def spread(self) -> Ns:
        """Each step's time for quantiles: on the device's clock only where it was measured by itself."""
        return np.where((self.device_ns >= 0) & ~self.lumped, self.device_ns, self.host_ns)

    @cached_property
    def steady(self) -> NDArray[np.bool_]:
        """Steps that tell what the program does by itself."""
        return ~(self.profiled | self.startup)


def steps_of(journal: Journal) -> Steps | None:
    """The steps of a process by its best anchor; None where there are fewer than two marks."""
    anchors = [note for note in journal.noted("anchor") if _is_anchor(note)]
    if not anchors:
        return None
    anchor, first, thread = (int(anchors[-1][name]) for name in ("kind", "step", "thread"))
    edge = journal.steps[first:].astype(np.int64)
    if len(edge) < 2 or (np.diff(edge) < 0).any():
        return None
    number = np.arange(first, first + len(edge) - 1)
    profiled, (device, lumped) = _profiled(journal, edge), _device(journal, number)
    samples, tokens, waited, how = _work(journal, edge, thread, anchor)
    return Steps(
        anchor,
        number,
        edge,
        device,
        lumped,
        profiled,
        _startup(np.where(device >= 0, device, np.diff(edge)), profiled),
        samples,
        tokens,
        waited,
        how,
    )


def _is_anchor(note: dict[str, Any]) -> bool:
    return note.get("kind") in kinds.ANCHORS and all(isinstance(note.get(name), int) for name in ("step", "thread"))


def _device(journal: Journal, number: Ns) -> tuple[Ns, NDArray[np.bool_]]:
    """The device's time of each step, and whether it is a part of that of several."""
    told = journal.of(kinds.DEVICE)
    told = told[(told["start"] > 0) & (told["more"] >= 0)]
    count = told["start"].astype(np.int64)
    step = np.repeat(told["value"] - number[0], count) + _within(count)
    inside = np.flatnonzero((step >= 0) & (step < len(number)))
    found, lumped = np.full(len(number), -1, np.int64), np.zeros(len(number), bool)
    found[step[inside]] = np.repeat(told["more"] // np.maximum(count, 1), count)[inside]
    lumped[step[inside]] = np.repeat(count > 1, count)[inside]
    return found, lumped


def _within(count: Ns) -> Ns:
    """0, 1, … for each of some groups of so many."""
    return np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)


def _profiled(journal: Journal, edge: Ns) -> NDArray[np.bool_]:
    """Steps from the first sign of a profile to the step after its last one."""
    marks = journal.of(kinds.PROFILE)
    found = np.zeros(len(edge) - 1, bool)
    for one in unique(marks["more"]):
        mine = marks[marks["more"] == one]
        first = int(np.searchsorted(edge, mine["start"].min(), side="right")) - 1
        last = int(np.searchsorted(edge, mine["end"].max(), side="right")) - 1
        found[max(first, 0) : last + 1 + AFTER_PROFILE] = True
    return found


def _startup(length: Ns, profiled: NDArray[np.bool_]) -> NDArray[np.bool_]:
    found = np.zeros(len(length), bool)
    if not (~profiled).any():
        return found
    most = max(int(STARTUP_MOST * len(length)), 1)
    slow = length > STARTUP_RATIO * quantiles(length[~profiled], (0.5,))[0]
    found[: int(np.argmin(np.append(slow[:most], False)))] = True
    if len(length) > 1:
        found[0] = True  # what is set up once is set up there
    return found


def _work(journal: Journal, edge: Ns, thread: int, anchor: int) -> tuple[Ns, Ns, Ns, str | None]:
    """Samples, tokens and waiting of each step, and how samples were found."""
    count = len(edge) - 1
    loads = journal.of(kinds.LOADER)
    loads = loads[loads["thread"] == thread]
    waited = np.zeros(count, np.int64)
    at, inside = _place(edge, loads["end"])
    np.add.at(waited, at, (loads["end"] - loads["start"])[inside])
    if len(at) >= count / 2:
        of, how = loads, "the first dimension of what the data loader gave"
    else:
        of, how = journal.of(kinds.FORWARD), "the first dimension of the model's first argument"
        if anchor == kinds.OPTIMIZER:  # calls are watched up to its first step: all that train belong to one step
            of = of[(of["flags"] & kinds.GRAD != 0) & (of["start"] < edge[0])]
            at, inside = np.zeros(len(of), np.int64), np.ones(len(of), bool)
        else:
            at, inside = _place(edge, of["start"])
    if (journal.of(kinds.FORWARD)["detail"] == kinds.USER).any():
        of, how = journal.of(kinds.FORWARD), "gpuwhy.step(samples=…)"
        of = of[of["detail"] == kinds.USER]
        at, inside = _place(edge, of["start"] - 1)
    found = []
    for column in ("value", "more"):
        total = np.full(count, -1, np.int64)
        known = of[column][inside] >= 0
        total[unique(at[known])] = 0
        np.add.at(total, at[known], of[column][inside][known])
        found.append(total)
    samples, tokens = (_filled(one) for one in found)
    return samples, tokens, waited, how if (samples >= 0).any() else None


def _filled(values: Ns) -> Ns:
    """Steps of which nothing was seen have what the others have, if those agree."""
    known = unique(values[values >= 0])
    return np.where(values < 0, known[0], values) if len(known) == 1 else values


def _place(edge: Ns, time: Ns) -> tuple[Ns, NDArray[np.bool_]]:
    """The step of each time, and which times lie in any."""
    at = np.searchsorted(edge, time, side="right") - 1
    inside = (at >= 0) & (at < len(edge) - 1)
    return at[inside].astype(np.int64), np.asarray(inside)
