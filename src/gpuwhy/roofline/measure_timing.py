"""Timing of device work: things to run → figures per second, as the median over rounds with their spread.

A round of a thing lasts long enough (20 ms) that starting and stopping the clock do not count. Things that are to be
compared take their rounds in turns, so that clocks that fall while the device heats do not favour the first.
All times are ns on the device's clock.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gpuwhy.roofline.ceilings import Spread

Run = Callable[[], object]

GRAPH_BELOW_NS = 200_000
"""Below this, the host may launch a thing more slowly than the device does it: its runs go into a CUDA graph."""
GRAPH_NS = 1_000_000
"""Length of such a graph."""
MOST_NODES = 2_000
GROWTH = 4
"""Factor by which the number of runs grows until they are long enough to tell how long one takes."""


@dataclass(frozen=True)
class Plan:
    """How long to measure."""

    rounds: int = 7
    least_rounds: int = 3
    """Taken even where `budget_ns` is spent before."""
    round_ns: float = 20e6
    longest_run_ns: float = 0.5e9
    """A thing that takes longer once is not measured: a smaller one says the same."""
    budget_ns: float = 4e9
    """For all rounds of all things that are measured in turns."""
    rest_s: float = 0.0
    """Pause before each round."""


STANDARD = Plan()
BURST_NS, REST_S = 6e6, 0.05
"""Where the power limit would hold the clocks down, short rounds with rests between show what the device can do at its
full clock, as kernels of a mixed load have it."""


@dataclass(frozen=True)
class Thing:
    """Something to time. `work`: FLOPs or bytes of one run."""

    name: str
    run: Run
    work: float


class Backend:
    """A device, and its clock. This one is the host itself, which needs no GPU: the same code runs in tests."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = torch.device(device)
        self.on_busy: Callable[[], None] = lambda: None
        """Called while the device works, before it is waited for: the moment to look at its clocks."""

    @property
    def l2_bytes(self) -> int | None:
        """Size of the second-level cache."""
        return None

    def free_bytes(self) -> int:
        """Memory that may be used."""
        return 2 << 30

    def synchronize(self) -> None:
        """Wait until the device has done everything."""

    def release(self) -> None:
        """Give freed memory back."""

    def time_ns(self, run: Run, repeats: int) -> float:
        """Time of so many runs, one after the other."""
        start = time.perf_counter_ns()
        for _ in range(repeats):
            run()
        self.on_busy()
        return float(time.perf_counter_ns() - start)

    def graph(self, run: Run, count: int) -> Run | None:
        """One thing that does `count` runs without the host between them; None where that cannot be."""
        return None


class CudaBackend(Backend):
    """A CUDA or ROCm device, timed by its events."""

    def __init__(self, index: int) -> None:
        super().__init__(f"cuda:{index}")
        self.index = index

    @property
    def l2_bytes(self) -> int | None:
        """Size of the second-level cache, as the driver reports it."""
        size = getattr(torch.cuda.get_device_properties(self.index), "L2_cache_size", None)  # since torch 2.2
        return int(size) if size else None

    def free_bytes(self) -> int:
        """Memory that is free on the device now."""
        return int(torch.cuda.mem_get_info(self.index)[0])

    def synchronize(self) -> None:
        """Wait until the device has done everything."""
        torch.cuda.synchronize(self.index)

    def release(self) -> None:
        """Give what torch's allocator keeps back to the device."""
        torch.cuda.empty_cache()

    def time_ns(self, run: Run, repeats: int) -> float:
        """Time between two events around so many runs."""
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(repeats):
            run()
        end.record()
        if not end.query():  # an idle device has other clocks
            self.on_busy()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e6

    def graph(self, run: Run, count: int) -> Run | None:
        """The replay of a graph; None if torch or the operation cannot be captured."""
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(count):
                    run()
        except Exception:  # an old torch, or an operation that waits for the device: it is timed without
            self.synchronize()
            return None
        replay: Run = graph.replay
        return replay


def in_turns(backend: Backend, things: Sequence[Thing], plan: Plan, notes: list[str]) -> dict[str, Spread]:
    """Work per second of each thing. What fails or takes too long is absent, and noted."""
    ready: list[_Ready] = []
    for thing in things:
        try:
            run, runs, ns = _prepared(backend, thing.run, plan)
        except Exception as error:  # whatever torch or the driver raise: only this figure is unknown
            notes.append(f"{thing.name}: {reason(error)}")
            continue
        if ns / runs > plan.longest_run_ns:
            notes.append(f"{thing.name}: left out, a single run takes {ns / runs / 1e9:.1f} s")
        else:
            ready.append(_Ready(thing, run, thing.work * runs, ns, math.ceil(plan.round_ns / ns), []))
    if not ready:
        return {}
    turn_ns = sum(one.repeats * one.ns for one in ready)
    for _ in range(max(plan.least_rounds, min(plan.rounds, int(plan.budget_ns / turn_ns)))):
        for one in list(ready):
            time.sleep(plan.rest_s)
            try:
                ns = max(backend.time_ns(one.run, one.repeats), 1.0)  # a clock may be coarse
            except Exception as error:  # as above
                notes.append(f"{one.thing.name}: {reason(error)}")
                ready.remove(one)
            else:
                one.rates.append(one.work * one.repeats / ns * 1e9)
    return {one.thing.name: spread(one.rates) for one in ready}


@dataclass(eq=False)
class _Ready:
    """A thing that takes turns: what is repeated, its work and ns, how often in a round, and its rates so far."""

    thing: Thing
    run: Run
    work: float
    ns: float
    repeats: int
    rates: list[float]


def _prepared(backend: Backend, run: Run, plan: Plan) -> tuple[Run, int, float]:
    """What to repeat: it, how many runs it stands for, and its ns. Warms the device and all caches up."""
    run()
    backend.synchronize()
    ns = _one_ns(backend, run, plan)
    if ns >= GRAPH_BELOW_NS:
        return run, 1, ns
    count = min(max(round(GRAPH_NS / ns), 1), MOST_NODES)
    replay = backend.graph(run, count)
    if replay is None:
        return run, 1, ns
    replay()
    backend.synchronize()
    return replay, count, _one_ns(backend, replay, plan)


def _one_ns(backend: Backend, run: Run, plan: Plan) -> float:
    """About how long one run takes."""
    repeats = 1
    while True:
        ns = max(backend.time_ns(run, repeats), 1.0)
        if ns >= plan.round_ns / GROWTH:
            return ns / repeats
        repeats *= GROWTH


def spread(values: Sequence[float]) -> Spread:
    """Median, 10th and 90th percentile; between two values as far as between their ranks."""
    ordered = sorted(values)

    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        below = math.floor(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (ordered[above] - ordered[below]) * (place - below)

    return Spread(low=at(0.1), mid=at(0.5), high=at(0.9))


def dice(device: torch.device) -> torch.Generator:
    """A source of random numbers of our own: the program's is left alone."""
    return torch.Generator(device).manual_seed(0)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch (of any version) says that the memory does not suffice."""
    kind: Any = getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError
    return isinstance(error, kind) or "out of memory" in str(error).lower()


def reason(error: BaseException) -> str:
    """The first line of an error, for a note."""
    if is_out_of_memory(error):
        return "out of memory"
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:160]}" if lines else type(error).__name__
