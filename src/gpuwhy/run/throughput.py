"""What a run's steady steps come to: its real throughput, and what a step takes without the profiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import quantiles, unique
from gpuwhy.probe import format as kinds
from gpuwhy.reports.run_model import Figures, Throughput
from gpuwhy.run.counters import ThreadSummary
from gpuwhy.run.journals import Journal
from gpuwhy.run.spans import covered, joined, spans_of
from gpuwhy.run.steps import Ns, Steps, evaluations

NEARBY = 50
"""Steps before and after a profile whose time calibrates its replay."""
PAUSE = 0.05
"""A step has a pause if a checkpoint, an evaluation or a compilation takes this part of it."""
MOST_BLOCKS = 200
STRETCHES, LEAST = 20, 40
"""Throughput over time is told for so many stretches, of at least so many steps together."""


def throughput(ranks: Sequence[Steps], loop: ThreadSummary | None = None) -> Throughput:
    """Of the first rank, whose loop runs in this thread; samples and tokens of all."""
    first = ranks[0]
    steady = first.steady if first.steady.any() else ~first.profiled if (~first.profiled).any() else first.steady | True
    length = first.length[steady].astype(np.float64)
    total = float(length.sum()) / 1e9
    median, low, high = quantiles(first.spread[steady].astype(np.float64), (0.5, 0.1, 0.9)).tolist()
    samples, tokens = (_each(ranks, name) for name in ("samples", "tokens"))
    own = first.samples[steady]
    return Throughput(
        steps_by=kinds.ANCHORS[first.anchor],
        steps=len(first),
        steady_steps=int(steady.sum()),
        startup_steps=int(first.startup.sum()),
        profiled_steps=int(first.profiled.sum()),
        clock="device" if (first.device_ns[steady] >= 0).mean() > 0.5 else "host",
        step_ns=Figures(mean=float(length.mean()), median=median, p10=low, p90=high),
        steps_per_s=len(length) / total,
        by_time=_by_time(first),
        samples_per_step=float(own.mean()) if (own >= 0).all() else None,
        samples_per_s=samples,
        tokens_per_s=tokens,
        samples_by=first.how_samples,
        blocks_ns=_blocks(first.spread[steady]),
        block_steps=_block_steps(int(steady.sum())),
        loop_cores=loop.cores if loop is not None else None,
        input_wait=float(first.waited_ns[steady].sum() / first.host_ns[steady].sum())
        if first.waited_ns.any()
        else None,
    )


def _block_steps(steps: int) -> int:
    """Steps of a block, so that there are at most `MOST_BLOCKS`."""
    return max(-(-steps // MOST_BLOCKS), 1)


def _blocks(length: Ns) -> list[float]:
    """Means of consecutive steps; those at the end that make no whole block are left out."""
    size = _block_steps(len(length))
    whole = len(length) // size * size
    return [float(mean) for mean in length[:whole].reshape(-1, size).mean(axis=1)]


def _each(ranks: Sequence[Steps], name: str) -> float | None:
    """Samples or tokens a second, of all ranks together."""
    total = 0.0
    for steps in ranks:
        steady = steps.steady
        of = getattr(steps, name)[steady]
        if not len(of) or (of < 0).any():
            return None
        total += float(of.sum()) / (float(steps.length[steady].sum()) / 1e9)
    return total


def _by_time(steps: Steps) -> list[float]:
    """Steps a second in equal stretches of time, from the first steady step to the end of the last."""
    rows = np.flatnonzero(steps.steady)
    if len(rows) < LEAST:
        return []
    edge = steps.edge[rows[0] : rows[-1] + 2]
    return rates(edge, STRETCHES)[1]


def rates(edge: Ns, stretches: int) -> tuple[NDArray[np.float64], list[float]]:
    """Bounds of equal stretches of the time that steps with these edges take, and steps a second in each."""
    bounds = np.linspace(float(edge[0]), float(edge[-1]), stretches + 1)
    done = np.interp(bounds, edge.astype(np.float64), np.arange(len(edge)))
    return bounds, [float(rate) for rate in np.diff(done) / np.maximum(np.diff(bounds) / 1e9, 1e-9)]


def samples_of(steps: Steps) -> int | None:
    """Samples of each steady step, if all have as many."""
    own = unique(steps.samples[steps.steady])
    return int(own[0]) if len(own) == 1 and own[0] > 0 else None


def usual_step(journal: Journal, steps: Steps, note: dict[str, Any]) -> float | None:
    """Seconds that a step takes without the profiler, near the profile of a note; None: nothing near it was steady.

    Steps with a rare pause are no part of it: the profile has none of these.
    """
    first = note.get("first")
    if not isinstance(first, int):
        return None
    rows = np.flatnonzero(steps.steady)
    near = rows[np.argsort(np.abs(steps.number[rows] - first), kind="stable")[:NEARBY]]
    paused = _paused(journal, steps)[near]
    if paused.sum() < len(near) / 2:
        near = near[~paused]
    return float(steps.length[near].mean()) / 1e9 if len(near) else None


def _paused(journal: Journal, steps: Steps) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which steps have a checkpoint, an evaluation or a compilation in them."""
    of = [spans_of(journal.of(kind)) for kind in (kinds.CHECKPOINT, kinds.COMPILE)]
    of.append(evaluations(journal, steps.anchor, steps.edge, int(steps.edge[-1])))
    return np.asarray(covered(steps.edge, joined(np.concatenate(of))) > PAUSE * steps.host_ns)
