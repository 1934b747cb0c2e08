"""Loops on an imagined machine: what they record, how long their steps are, and what the replay makes of them.

The machine is simulated: host threads do one thing after the other, a device does in order what it is given. So the
same loop with more or less in it can be run, too, and a change to the graph of its recording be held against that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from events import MAIN, Profile

import gpuwhy
from gpuwhy.ledger.partition import balance, basis
from gpuwhy.roofline.judge import judge
from gpuwhy.roofline.work import work_of_operations
from gpuwhy.steps import Selection, window
from gpuwhy.timeline import Timeline
from gpuwhy.whatif.build import build
from gpuwhy.whatif.changes import Change, composed
from gpuwhy.whatif.period import step_ns
from gpuwhy.whatif.replayed import Replayed, replayed
from gpuwhy.whatif.setting import Ops, Setting, Slices

US = 1_000
CALL, LATENCY, GAP, RETURN = 4 * US, 2 * US, 1_500, 3 * US
"""A launch call; from its end to the start on an idle device; between two operations; from an operation's end until a
call that waits for it returns."""


class Loop:
    """A loop that runs and is recorded, from time 0 on."""

    def __init__(self, rank: int | None = None) -> None:
        self.profile = Profile(rank=rank)
        self.thread = MAIN
        self.now = 0
        self.free = 0  # the end of the device's last operation
        self.begins: list[int] = []  # the start of each step's first operation
        self._begun = True

    @property
    def step_ns(self) -> int:
        """The last whole step on the device: all loops have settled by then."""
        return self.begins[-1] - self.begins[-2]

    @contextmanager
    def step(self) -> Iterator[None]:
        start, self._begun = self.now, False
        yield
        self.profile.step(len(self.begins), start, self.now)

    def operator(self, ns: int, kernel: int | None = None, *, name: str = "aten::mm", late: int = 0) -> None:
        """An operator that at its end launches a kernel, if it has one. It may start later than it could."""
        start = self.now
        self.now += ns
        self.profile.operator(name, start, self.now, self.thread)
        if kernel is not None:
            begin = self.enqueued() + late
            self.free = begin + kernel
            self.profile.launch(self.now - CALL, self.now, begin, self.free, thread=self.thread)

    def enqueued(self) -> int:
        """When an operation starts that the host has just launched."""
        start = max(self.now + LATENCY, self.free + GAP if self.free else 0)
        if not self._begun:
            self.begins.append(start)
            self._begun = True
        return start

    def copy(self, ns: int, size: int = 1024) -> None:
        """A copy from pageable memory: the call returns when it is over."""
        call, self.now = self.now, self.now + CALL
        start = self.enqueued()
        self.free = start + ns
        self.now = self.free + RETURN
        correlation = self.profile.runtime("cudaMemcpyAsync", call, self.now)
        self.profile.copy("HtoD (Pageable -> Device)", start, self.free, correlation, size=size)

    def wait(self, call: str, ns: int = 0, *, until: int | None = None) -> None:
        """A call that returns some time after the device is done with everything, or with what it ends then."""
        start, self.now = self.now, max(self.now, self.free if until is None else until) + RETURN + ns
        self.profile.runtime(call, start, self.now)

    def call(self, name: str, ns: int) -> None:
        """A runtime call that waits for nothing."""
        self.profile.runtime(name, self.now, self.now + ns)
        self.now += ns


Body = Callable[[Loop], None]


def looped(*bodies: Body, steps: int = 8, before: Body | None = None, rank: int | None = None) -> Loop:
    """A loop whose steps do all of this, perhaps with something before the first one."""
    loop = Loop(rank)
    if before is not None:
        before(loop)
    for _ in range(steps):
        with loop.step():
            for body in bodies:
                body(loop)
    return loop


def replay(of: Loop, folder: Path) -> Replayed:
    """The replay of what a loop recorded."""
    return replay_of(gpuwhy.load(str(of.profile.write(folder / "profile.json"))))


def replay_of(timeline: Timeline, device: int = 0) -> Replayed:
    """The replay of a device's judged steps."""
    of = basis(timeline)
    found = {number: window(timeline, number, Selection()) for number in range(len(timeline.devices))}
    windows = {number: one for number, one in found.items() if one is not None}
    ledger = balance(of, device, windows[device])
    view = judge(of, ledger, work_of_operations(timeline), None).view
    return replayed(of, ledger, view, build(of), windows, None)


def setting_of(of: Replayed) -> Setting:
    """What changes to a replay are made in."""
    assert of.setting is not None, of.withheld
    return of.setting


def everywhere(of: Replayed) -> tuple[Slices, Ops]:
    """All host time, and all operations."""
    graph = setting_of(of).graph
    return np.ones(len(graph.host), bool), np.ones(len(graph.duration), bool)


def steady(of: Replayed, *changes: Change) -> float:
    """The step that a replay settles at after some changes."""
    setting = setting_of(of)
    return step_ns(composed(list(changes))(setting.graph), setting.period)
