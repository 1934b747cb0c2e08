"""What each host call says about idle time, worked out once a timeline, for pieces of calls (see `nesting`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuwhy.intervals import Intervals
from gpuwhy.ledger.accounts import Accounts
from gpuwhy.ledger.classes import BACKWARD, special_calls
from gpuwhy.steps import STEP_MARK
from gpuwhy.timeline import CallKind, Timeline

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
"""Objects' addresses in frame names (`<built-in method step of Optimizer object at 0x7f…>`) say nothing."""
MAX_FAMILY = 32
"""Threads of a family that are looked at: autograd has one thread a device; more is no autograd, or an attack."""
ROLES = ("main", "backward", "other")
Processes = dict[tuple[int, str], list[int]]
"""The threads of each process, by (rank, process)."""


@dataclass(frozen=True, eq=False)
class Host:
    """`decided` is the account of pieces that are in a special call or an operator, `framed` of those that are only
    in a Python frame or an annotation, -1 elsewhere; `because` the piece to name for it. `role` indexes `ROLES`;
    `known` is false for threads of which only runtime calls were recorded; `family` lists the threads that a thread
    hands its work to, itself first. `own_time(thread)` says when which piece is the innermost open one, worked
    out once.
    """

    decided: NDArray[np.int32]
    framed: NDArray[np.int32]
    because: NDArray[np.int32]
    role: NDArray[np.int8]
    known: NDArray[np.bool_]
    family: tuple[tuple[int, ...], ...]
    own_time: Callable[[int], tuple[Intervals, NDArray[np.int32]]]


def host(timeline: Timeline, accounts: Accounts) -> Host:
    """Judge every piece of every host call."""
    calls, nesting, names = timeline.calls, timeline.nesting, timeline.names
    kind = calls.kind[nesting.call]
    special = special_calls(calls, names, lambda label: accounts.number(f"idle/{label}"))[nesting.call]
    at_special = nesting.nearest(special >= 0)
    at_operator = nesting.nearest(kind == CallKind.OPERATOR)
    outermost = nesting.outermost(kind == CallKind.OPERATOR)
    launching = _launches(timeline)[nesting.call]
    dispatch, compute = accounts.number("idle/dispatch"), accounts.number("idle/host_compute")
    decided = np.full(len(kind), -1, np.int32)
    inside = outermost >= 0
    decided[inside] = np.where(launching[outermost[inside]], dispatch, compute)
    decided[at_special >= 0] = special[at_special[at_special >= 0]]
    is_mark = timeline.names_like(STEP_MARK)[calls.name]
    frame = (kind == CallKind.PYTHON) | ((kind == CallKind.ANNOTATION) & ~is_mark[nesting.call])
    at_frame = nesting.nearest(frame)
    framed = np.full(len(kind), -1, np.int32)
    only = np.flatnonzero((decided < 0) & (at_frame >= 0))
    framed[only] = _frame_accounts(timeline, at_frame[only], accounts)
    because = np.where(at_special >= 0, at_special, np.where(at_operator >= 0, at_operator, at_frame))
    processes = _processes(timeline)
    role, known = _roles(timeline, processes, outermost, is_mark)
    family = _families(timeline, processes, role)
    return Host(decided, framed, because.astype(np.int32), role, known, family, cache(nesting.own_time))


def _launches(timeline: Timeline) -> NDArray[np.bool_]:
    """For each call whether a launch of a recorded operation starts in it on its thread."""
    calls = timeline.calls
    is_launch = np.zeros(len(calls), np.int64)
    is_launch[timeline.ops.launch[timeline.ops.launch >= 0]] = 1
    before = np.concatenate(([0], np.cumsum(is_launch)))
    inside = np.zeros(len(calls), bool)
    for thread in range(len(timeline.threads)):
        part = timeline.calls_of(thread)
        start = calls.start[part]
        first = np.searchsorted(start, start, side="left") + part.start
        past = np.searchsorted(start, calls.end[part], side="left") + part.start
        inside[part] = before[np.maximum(past, first)] > before[first]
    return inside


def _frame_accounts(timeline: Timeline, pieces: NDArray[Any], accounts: Accounts) -> NDArray[np.int32]:
    row = timeline.nesting.call[pieces]
    code = timeline.calls.name[row].astype(np.int64) * 2 + (timeline.calls.kind[row] == CallKind.ANNOTATION)
    used, place = np.unique(code, return_inverse=True)
    number = np.empty(len(used), np.int32)
    for i, one in enumerate(used.tolist()):
        name = ADDRESS.sub("", timeline.names[one // 2])
        number[i] = accounts.number(f"idle/outside_operators/{'annotation: ' if one % 2 else ''}{name or '(no name)'}")
    return number[place]


def _roles(
    timeline: Timeline, processes: Processes, outermost: NDArray[np.int32], is_mark: NDArray[np.bool_]
) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    """Main, backward or other for each thread, and whether more than runtime calls is known of it.

    `outermost` is the outermost operator piece around each piece, or -1; `is_mark` says of each call whether it has
    the name of a step mark.
    """
    calls, nesting, count = timeline.calls, timeline.nesting, len(timeline.threads)
    is_back = timeline.names_like(BACKWARD)[calls.name]
    operator = calls.kind == CallKind.OPERATOR
    annotation = calls.kind == CallKind.ANNOTATION
    marks = np.bincount(calls.thread[annotation & is_mark], minlength=count)
    backward = np.bincount(calls.thread[operator & is_back], minlength=count)
    known = np.bincount(calls.thread[operator | annotation | (calls.kind == CallKind.PYTHON)], minlength=count)
    top = np.flatnonzero(outermost == np.arange(len(outermost)))
    top = top[~is_back[nesting.call[top]]]
    forward = np.zeros(count, np.int64)
    np.add.at(forward, calls.thread[nesting.call[top]], nesting.end[top] - nesting.start[top])
    role = np.full(count, ROLES.index("other"), np.int8)
    for members in processes.values():
        weight = marks[members] if marks[members].any() else forward[members]
        main = members[int(np.argmax(weight))]
        for thread in members:
            if thread == main:
                role[thread] = ROLES.index("main")
            elif backward[thread]:
                role[thread] = ROLES.index("backward")
    return role, known > 0


def _processes(timeline: Timeline) -> Processes:
    """The threads of each process that have calls, by the time of their first one."""
    found: Processes = {}
    first: dict[int, int] = {}
    for number, thread in enumerate(timeline.threads):
        part = timeline.calls_of(number)
        if part.start < part.stop:
            first[number] = int(timeline.calls.start[part.start])
            found.setdefault((thread.rank, thread.process), []).append(number)
    for members in found.values():
        members.sort(key=first.__getitem__)
    return found


def _families(timeline: Timeline, processes: Processes, role: NDArray[np.int8]) -> tuple[tuple[int, ...], ...]:
    """For each thread the threads to look at, in order: itself, the main one, the backward ones by first call."""
    family: list[tuple[int, ...]] = [(t,) for t in range(len(timeline.threads))]
    for members in processes.values():
        kin = [t for t in members if role[t] != ROLES.index("other")]
        kin.sort(key=lambda t: int(role[t]))
        for thread in kin:
            family[thread] = (thread, *(t for t in kin[:MAX_FAMILY] if t != thread))
    return tuple(family)
