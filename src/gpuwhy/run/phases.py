"""The whole run on the coarse scale: each nanosecond from start to end in one account.

What lies within several accounts belongs to the last of them in this order: steps, waiting for input, garbage
collection, evaluation, compiling, checkpoints, gpuwhy's profiler. A checkpoint during an evaluation is a checkpoint.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import quantiles, unique
from gpuwhy.probe import format as kinds
from gpuwhy.reports.run_model import Phase
from gpuwhy.run.journals import Journal
from gpuwhy.run.spans import Spans, after_free, covered, joined, spans_of
from gpuwhy.run.steps import SPIKE, Steps, evaluations, in_thread


def phases(journal: Journal | None, steps: Steps | None, begun: int, ended: int) -> list[Phase]:
    """The accounts of a run from `begun` to `ended` (ns), as its first rank saw it; they sum to that time."""
    layers = (
        _layers(journal, steps, begun, ended) if journal is not None else [("not_watched", _spans([(begun, ended)]))]
    )
    times = unique(np.concatenate([np.array([begun, ended]), *(spans.ravel() for _, spans in layers)]))
    times = times[(times >= begun) & (times <= ended)]
    owner = np.full(max(len(times) - 1, 0), -1)
    for number, (_, spans) in enumerate(layers):
        owner[_covered(times, spans)] = number
    length = np.diff(times)
    found = []
    for number, (account, spans) in enumerate(layers):
        ns = int(length[owner == number].sum())
        if ns:
            found.append(Phase(account=account, ns=ns, share=ns / (ended - begun), count=_count(account, spans)))
    rest = int(length[owner < 0].sum())
    if rest:
        found.append(Phase(account="other", ns=rest, share=rest / (ended - begun)))
    return sorted(found, key=lambda phase: -phase.ns)


RARE = 0.1
"""Part of the steady steps up to which long ones are spikes; more of them are how the loop is."""
COUNTED = ("evaluation", "checkpoint", "compile", "profile", "gc", "spike", "steady", "warm_up")


def _count(account: str, spans: Spans) -> int | None:
    return len(spans) if account in COUNTED else None


def _layers(journal: Journal, steps: Steps | None, begun: int, ended: int) -> list[tuple[str, Spans]]:
    """Accounts with their spans, what lies outside first."""
    told = {note["note"]: note for note in reversed(journal.notes) if isinstance(note.get("note"), str)}
    probe = _time(told.get("begin"), begun)
    torch = told.get("torch")
    importing = _time(torch, probe, "begun")
    imported = _time(torch, importing)
    layers = [("start_up/before_python", [(begun, probe)])]
    first = int(steps.edge[0]) if steps is not None else ended
    layers.append(("start_up/before_torch", [(probe, importing)]))
    layers.append(("start_up/import_torch", [(importing, imported)]))
    layers.append(("start_up/set_up" if steps is not None else "no_steps", [(imported, first)]))
    found = [(account, _spans(spans)) for account, spans in layers]
    of_records = _of_records(journal, steps, ended)
    if steps is not None:
        found += _of_steps(steps, ended, np.concatenate([spans for _, spans in of_records]))
    return found + of_records


def _of_steps(steps: Steps, ended: int, told: Spans) -> list[tuple[str, Spans]]:
    """Accounts of steps. `told`: stretches that have accounts of their own."""
    edges = np.stack([steps.edge[:-1], steps.edge[1:]], axis=1)
    last = int(steps.edge[-1])
    found = [
        ("shut_down", _spans([(last, ended)])),
        ("steady", edges[~steps.startup]),
        ("warm_up", edges[steps.startup]),
    ]
    steady = steps.steady
    if steady.any():
        usual = round(quantiles(steps.length[steady], (0.5,))[0])
        others = joined(told)
        rest = np.diff(steps.edge) - covered(steps.edge, others)
        long = steady & (steps.length > SPIKE * usual) & (rest > usual)
        if long.sum() <= max(RARE * steady.sum(), 1):
            spans = edges[long].copy()
            spans[:, 0] = after_free(spans[:, 0], usual, others)  # what it took beyond the usual
            found.append(("spike", spans))
    return found


def _of_records(journal: Journal, steps: Steps | None, ended: int) -> list[tuple[str, Spans]]:
    found = []
    for account, kind in (
        ("input", kinds.LOADER),
        ("gc", kinds.COLLECTION),
        ("evaluation", kinds.EVALUATION),
        ("compile", kinds.COMPILE),
        ("checkpoint", kinds.CHECKPOINT),
        ("profile", kinds.PROFILE),
    ):
        records = journal.of(kind)
        if steps is not None and kind in (kinds.LOADER, kinds.CHECKPOINT):  # beside the loop it holds up nothing
            records = in_thread(records, steps.thread)
        if kind == kinds.EVALUATION:
            spans = evaluations(journal, steps.anchor, steps.edge, ended) if steps is not None else _spans([])
        else:
            spans = spans_of(records)
        found.append((account, spans))
    return found


def _time(note: dict[str, object] | None, otherwise: int, name: str = "t") -> int:
    value = note.get(name) if note is not None else None
    return value if isinstance(value, int) else otherwise


def _spans(pairs: list[tuple[int, int]]) -> Spans:
    return np.array([pair for pair in pairs if pair[1] > pair[0]], np.int64).reshape(-1, 2)


def _covered(times: NDArray[np.int64], spans: Spans) -> NDArray[np.bool_]:
    """Which of the stretches between times lie within any span."""
    change = np.zeros(len(times) + 1, np.int64)
    np.add.at(change, np.searchsorted(times, spans[:, 0]), 1)
    np.add.at(change, np.searchsorted(times, spans[:, 1]), -1)
    return np.asarray(np.cumsum(change)[: len(times) - 1] > 0)
