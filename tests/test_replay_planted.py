"""Loops whose step times are known by construction, with something in them: without it the replay is the plain loop.

Also what the replay must do on both sides of every change of pace, and over threads and ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from events import MAIN
from hypothesis import given, settings
from hypothesis import strategies as st
from replaying import (
    CALL,
    GAP,
    LATENCY,
    RETURN,
    US,
    Body,
    Loop,
    everywhere,
    looped,
    replay,
    replay_of,
    setting_of,
    steady,
)

import gpuwhy
from gpuwhy.timeline import Timeline
from gpuwhy.whatif.changes import Change, lasting, without_host_time, without_ops, without_waits
from gpuwhy.whatif.collectives import collectives
from gpuwhy.whatif.graph import Why
from gpuwhy.whatif.setting import Setting

NEAR = 10 * (LATENCY - GAP)
"""What a step of ten kernels may be off by, in ns: where one starts behind its launch and behind the kernel before it
alike, nobody knows which of the two delays it was."""

SHORT, LONG = 40 * US, 180 * US
"""Kernels for operators of 100 µs: the host is slower than the first, faster than the second."""
HOST_STEP = 10 * 100 * US
DEVICE_STEP = 10 * (LONG + GAP)
PLAIN = {SHORT: HOST_STEP, LONG: DEVICE_STEP}


def ten(kernel: int) -> Body:
    def body(loop: Loop) -> None:
        for _ in range(10):
            loop.operator(100 * US, kernel)

    return body


# --- Planted, and taken out again ---------------------------------------------------------------------------
# With SHORT kernels the device is done 2 + 40 µs after the last operator of a step. With LONG ones it begins 102 µs
# after the step does, if it has nothing left to do from the step before, and then takes ten kernels and nine gaps.

DONE_SHORT = HOST_STEP + LATENCY + SHORT
DONE_LONG = 100 * US + LATENCY + 10 * LONG + 9 * GAP


def sleeps(loop: Loop) -> None:
    loop.now += 3_000 * US


def synchronizes(call: str) -> Body:
    return lambda loop: loop.wait(call)


def copies(loop: Loop) -> None:
    loop.copy(500 * US)


def allocates(loop: Loop) -> None:
    loop.call("cudaMalloc", 1_200 * US)


def frees(loop: Loop) -> None:
    loop.wait("cudaFree", 200 * US)


def collects(loop: Loop) -> None:
    loop.profile.annotation("gc.collect", loop.now, loop.now + 1_500 * US)
    loop.now += 1_500 * US


def collects_in_frame(loop: Loop) -> None:
    loop.profile.frame("<built-in method collect of module object at 0x7f>", loop.now, loop.now + 1_500 * US)
    loop.now += 1_500 * US


def no_long_stretch(setting: Setting) -> list[Change]:
    return [without_host_time(setting.slices_of("outside_operators") & setting.long(1_000 * US))]


def no_time_in(account: str) -> Callable[[Setting], list[Change]]:
    return lambda setting: [without_host_time(setting.slices_of(account))]


def no_waits(setting: Setting) -> list[Change]:
    edges = setting.graph.edges
    waits = np.zeros(len(setting.graph.nodes), bool)
    waits[edges.target[edges.kind == Why.BLOCKING]] = True
    return [without_waits(waits)]


def no_copies(setting: Setting) -> list[Change]:
    copied = setting.busy("copy/h2d_pageable")
    return [without_ops(copied), *no_time_in("copy_call")(setting)]


PLANTED = {
    "sleep": (sleeps, no_long_stretch, HOST_STEP + 3_000 * US, HOST_STEP + 3_000 * US),
    "device synchronize": (
        synchronizes("cudaDeviceSynchronize"),
        no_waits,
        DONE_SHORT + RETURN,
        DONE_LONG + RETURN,
    ),
    "stream synchronize": (
        synchronizes("cudaStreamSynchronize"),
        no_waits,
        DONE_SHORT + RETURN,
        DONE_LONG + RETURN,
    ),
    # The copy begins when the device is done with the step before, and the first operator when the copy is over. With
    # SHORT kernels the device is done 42 µs after the step before has ended; then 1.5 + 500 + 3 µs.
    "pageable copy": (
        copies,
        no_copies,
        HOST_STEP + LATENCY + SHORT + GAP + 500 * US + RETURN,
        DONE_LONG + GAP + 500 * US + RETURN,
    ),
    "cudaMalloc": (allocates, no_time_in("allocator"), HOST_STEP + 1_200 * US, HOST_STEP + 1_200 * US),
    "cudaFree": (
        frees,
        lambda setting: [*no_waits(setting), *no_time_in("allocator")(setting)],
        DONE_SHORT + RETURN + 200 * US,
        DONE_LONG + RETURN + 200 * US,
    ),
    "collection": (collects, no_time_in("gc"), HOST_STEP + 1_500 * US, HOST_STEP + 1_500 * US),
    "collection in a frame": (collects_in_frame, no_time_in("gc"), HOST_STEP + 1_500 * US, HOST_STEP + 1_500 * US),
}


@pytest.mark.parametrize("kernel", [SHORT, LONG], ids=["host-bound", "device-bound"])
@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.parametrize("first", [True, False], ids=["before", "behind"])
def test_without_what_was_planted_the_step_is_that_of_the_plain_loop(
    name: str, kernel: int, first: bool, folder: Path
) -> None:
    planted, mend, with_short, with_long = PLANTED[name]
    wanted = with_short if kernel == SHORT else with_long
    found = replay(looped(*((planted, ten(kernel)) if first else (ten(kernel), planted))), folder)
    assert found.error == found.unexplained == 0
    assert found.recorded_ns == pytest.approx(wanted, abs=NEAR)
    assert steady(found) == pytest.approx(wanted, abs=NEAR)
    assert steady(found, *mend(setting_of(found))) == pytest.approx(PLAIN[kernel], abs=NEAR)
    assert steady(replay(looped(ten(kernel)), folder)) == pytest.approx(PLAIN[kernel], abs=NEAR)


def test_two_things_planted_are_taken_out_one_by_one_or_together(folder: Path) -> None:
    found = replay(looped(ten(LONG), synchronizes("cudaDeviceSynchronize"), sleeps), folder)
    setting = setting_of(found)
    assert steady(found) == pytest.approx(DONE_LONG + RETURN + 3_000 * US, abs=NEAR)
    assert steady(found, *no_long_stretch(setting)) == pytest.approx(DONE_LONG + RETURN, abs=NEAR)
    # Without the wait the host sleeps while the device still works.
    assert steady(found, *no_waits(setting)) == pytest.approx(HOST_STEP + 3_000 * US, abs=NEAR)
    both = [*no_waits(setting), *no_long_stretch(setting)]
    assert steady(found, *both) == steady(found, *reversed(both)) == pytest.approx(DEVICE_STEP, abs=NEAR)


def test_what_a_slower_device_hides_brings_nothing(folder: Path) -> None:
    """The host has 815 µs to spare in each step, and spends 600 of them in cudaMalloc."""
    found = replay(looped(ten(LONG), lambda loop: loop.call("cudaMalloc", 600 * US)), folder)
    without = no_time_in("allocator")(setting_of(found))
    assert steady(found) == steady(found, *without) == pytest.approx(DEVICE_STEP, abs=NEAR)


def test_a_kernel_that_is_no_more_takes_its_gap_with_it(folder: Path) -> None:
    found = replay(looped(ten(2 * LONG)), folder)
    _, ops = everywhere(found)
    ops[::2] = False
    assert steady(found, without_ops(ops)) == pytest.approx(5 * (2 * LONG + GAP), abs=NEAR)
    assert steady(found, without_ops(~ops), without_ops(ops)) == pytest.approx(HOST_STEP, abs=NEAR)


def test_a_copy_waits_in_its_call_for_the_kernels_before_it(folder: Path) -> None:
    found = replay(looped(copies, ten(LONG)), folder)
    kernels = ~setting_of(found).busy("copy/h2d_pageable")
    wanted = HOST_STEP + LATENCY + LONG / 10 + GAP + 500 * US + RETURN
    assert steady(found, lasting(kernels, 0.1)) == pytest.approx(wanted, abs=NEAR)


def test_a_wait_for_the_step_before_holds_up_every_step(folder: Path) -> None:
    """The host launches 200 µs, waits for the 1,000 of the step before, and launches the next 1,000 after 300."""

    def body(loop: Loop) -> None:
        before = loop.free
        loop.operator(100 * US, 200 * US)
        loop.wait("cudaEventSynchronize", until=before)
        loop.operator(200 * US)
        loop.operator(100 * US, 1_000 * US)

    found = replay(looped(body, before=body), folder)
    assert steady(found) == pytest.approx(RETURN + 300 * US + LATENCY + 1_000 * US, abs=NEAR)
    assert steady(found, *no_waits(setting_of(found))) == pytest.approx(1_200 * US + 2 * GAP, abs=NEAR)


# --- Regimes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [10, 40, 90, 98, 99, 105, 180, 400])
def test_the_step_is_the_larger_of_the_hosts_time_and_the_devices(kernel: int, folder: Path) -> None:
    found = replay(looped(ten(kernel * US)), folder)
    host, ops = everywhere(found)
    for faster in (0.5, 1.0):
        for slower in (1.0, 2.0):
            wanted = max(HOST_STEP * faster, 10 * (kernel * US * slower + GAP))
            changed = steady(found, without_host_time(host, faster), lasting(ops, slower))
            assert changed == pytest.approx(wanted, abs=NEAR)
    assert steady(found, without_host_time(host)) == pytest.approx(10 * (kernel * US + GAP), abs=NEAR)


@pytest.mark.parametrize("kernel", [120, 180, 400])
def test_with_a_wait_in_each_step_it_is_their_sum(kernel: int, folder: Path) -> None:
    """After the wait the device stands still until the first operator of 100 µs, behind 900 µs without kernels."""

    def body(loop: Loop) -> None:
        loop.operator(900 * US)
        ten(kernel * US)(loop)
        loop.wait("cudaDeviceSynchronize")

    found = replay(looped(body), folder)
    host, ops = everywhere(found)
    for faster in (0.5, 1.0):
        for slower in (1.0, 2.0):
            device = 10 * kernel * US * slower + 9 * GAP
            wanted = 1_000 * US * faster + LATENCY + device + RETURN
            changed = steady(found, without_host_time(host, faster), lasting(ops, slower))
            assert changed == pytest.approx(wanted, abs=NEAR)


def test_a_wait_that_was_over_when_it_was_called_waits_for_a_slower_device(folder: Path) -> None:
    def body(loop: Loop) -> None:
        loop.operator(100 * US, 10 * US)
        loop.operator(500 * US)
        loop.wait("cudaDeviceSynchronize")

    found = replay(looped(body), folder)
    _, ops = everywhere(found)
    assert steady(found) == 600 * US + RETURN
    assert steady(found, lasting(ops, 40.0)) == 600 * US + RETURN
    # 100 µs until the launch, 2 until the kernel starts, 1,000 of its own; then the call returns.
    assert steady(found, lasting(ops, 100.0)) == pytest.approx((100 + 2 + 1_000) * US + RETURN, abs=RETURN)


def test_launches_that_waited_for_room_before_the_device_was_recorded_are_no_work_of_the_host(folder: Path) -> None:
    """A queue of 400 launches, full: the host waits until 20 of them are gone, then goes on.

    The device is recorded only 5 ms after the host: the operations that made room for its first launches are missing.
    """
    loop = Loop()
    ends: list[int] = []
    kernel, recorded = 100 * US, 700
    step_began = device_began = 0
    for number in range(recorded + 80):
        if number == recorded:
            device_began = loop.now + 5_000 * US
        if number % 10 == 0:
            step_began = loop.now
        begin, loop.now = loop.now, loop.now + 20 * US
        call, room = loop.now, 0
        if number >= 400 and ends[number - 400] > call:
            room = ends[number - 380]
        loop.now = max(call + CALL, room)
        start = max(loop.now + LATENCY, loop.free + GAP if loop.free else 0)
        loop.free = start + kernel
        ends.append(loop.free)
        if number >= recorded:
            loop.profile.operator("aten::mm", begin, loop.now, loop.thread)
            loop.profile.launch(call, loop.now, start, loop.free, thread=loop.thread)
            if number % 10 == 9:
                loop.profile.step((number - recorded) // 10, step_began, loop.now)
    for end in ends[:recorded]:
        if end > device_began:
            loop.profile.kernel("gemm", end - kernel, end, None)
    found = replay(loop, folder)
    _, ops = everywhere(found)
    assert steady(found) == pytest.approx(10 * (kernel + GAP), abs=NEAR)
    assert steady(found, lasting(ops, 0.1)) == pytest.approx(10 * (20 * US + CALL), abs=NEAR)


def test_an_operation_without_a_launch_holds_up_its_stream_like_any_other(folder: Path) -> None:
    def unlaunched(loop: Loop) -> None:
        start = loop.free + GAP
        loop.free = start + LONG
        loop.profile.kernel("gemm", start, loop.free, None)

    found = replay(looped(ten(LONG), unlaunched), folder)
    _, ops = everywhere(found)
    assert steady(found) == pytest.approx(11 * (LONG + GAP), abs=NEAR)
    assert steady(found, lasting(ops, 2.0)) == pytest.approx(11 * (2 * LONG + GAP), abs=NEAR)


OPERATORS = st.lists(st.tuples(st.integers(10, 200), st.integers(4, 400) | st.none()), max_size=5)
LAST = st.tuples(st.integers(10, 200), st.integers(4, 400))
FACTORS = st.sampled_from([0.5, 1.0, 2.0, 10.0])


def program(operators: list[tuple[int, int | None]], waits: bool, host: float = 1.0, device: float = 1.0) -> Body:
    """Operators (µs, and the µs of their kernel), so many times as long, and perhaps a wait for the device."""

    def body(loop: Loop) -> None:
        for length, kernel in operators:
            loop.operator(int(length * US * host), None if kernel is None else int(kernel * US * device))
        if waits:
            loop.wait("cudaDeviceSynchronize")

    return body


@given(OPERATORS, LAST, st.booleans(), FACTORS, FACTORS)
@settings(max_examples=60)
def test_a_changed_replay_is_the_recording_of_the_changed_program(
    folder: Path, operators: list[tuple[int, int | None]], last: tuple[int, int], waits: bool, faster: float, by: float
) -> None:
    operators = [*operators, last]
    found = replay(looped(program(operators, waits)), folder)
    host, ops = everywhere(found)
    changed = steady(found, without_host_time(host, faster), lasting(ops, by))
    assert changed == pytest.approx(looped(program(operators, waits, faster, by), steps=50).step_ns, abs=NEAR)


# --- Two threads --------------------------------------------------------------------------------------------

AUTOGRAD = 101
BACKWARD = "autograd::engine::evaluate_function: "


@pytest.mark.parametrize("pause", [0, 10 * US])
def test_the_main_thread_waits_for_the_backward_thread(pause: int, folder: Path) -> None:
    """Main: 300 µs, then 200 after the other thread's two operators of 250. Pauses lie around both of these."""

    def body(loop: Loop) -> None:
        loop.operator(300 * US, 20 * US)
        loop.thread = AUTOGRAD
        for name in ("MmBackward0", "AddBackward0"):
            loop.now += pause
            loop.operator(250 * US, 20 * US, name=BACKWARD + name)
        loop.now += pause
        loop.thread = MAIN
        loop.operator(200 * US, 20 * US, name="aten::_fused_adam_")

    found = replay(looped(body), folder)
    setting = setting_of(found)
    of_thread = [setting.timeline.threads[one].thread for one in setting.graph.host.thread.tolist()]
    backward = np.array(of_thread) == str(AUTOGRAD)
    assert steady(found) == 300 * US + 500 * US + 200 * US + 3 * pause
    # The pause between the two operators is the other thread's, those around them are the main one's.
    assert steady(found, without_host_time(backward)) == 500 * US + 2 * pause
    assert steady(found, without_host_time(backward, 0.5)) == 750 * US + 2.5 * pause
    assert steady(found, without_host_time(~backward)) == 500 * US + pause


# --- Delays that nothing explains ---------------------------------------------------------------------------


def late_at_the_end(operators: int, kernel: int, late: int) -> Body:
    def body(loop: Loop) -> None:
        for _ in range(operators - 1):
            loop.operator(100 * US, kernel)
        loop.operator(100 * US, 10 * US, late=late)

    return body


def test_a_late_start_is_unexplained_but_for_what_a_latency_can_be(folder: Path) -> None:
    """The device is idle anyway: the kernel starts 2 + 60 µs after its launch, of which 20 pass for a latency."""
    found = replay(looped(late_at_the_end(10, SHORT, 60 * US)), folder)
    assert found.unexplained == pytest.approx(0.042)
    assert found.error == 0
    assert steady(found) == HOST_STEP


def test_an_unexplained_delay_is_not_frozen_into_the_replay(folder: Path) -> None:
    """59 long kernels and a short one, 1.5 + 60 µs behind the one before it, of which 20 pass for a gap."""
    plain = 59 * (LONG + GAP) + 10 * US + GAP
    found = replay(looped(late_at_the_end(60, LONG, 60 * US)), folder)
    assert found.recorded_ns == plain + 60 * US
    assert found.unexplained == pytest.approx(41_500 / (plain + 60 * US))
    assert found.error == pytest.approx(-41_500 / (plain + 60 * US))
    assert steady(found) == plain + 60 * US - 41_500


@pytest.mark.parametrize(("late", "told"), [(60, None), (75, "5.7 % of the window are delays")])
def test_gains_are_withheld_where_too_much_is_unexplained(late: int, told: str | None, folder: Path) -> None:
    loop = looped(late_at_the_end(10, SHORT, late * US))
    report = gpuwhy.explain(loop.profile.write(folder / "profile.json"))
    assert report.replay is not None
    assert report.replay.unexplained == pytest.approx((late + 2 - 20) / 1_000)
    reasons = [item.why for item in report.withheld if item.what == "gains"]
    assert len(reasons) == (told is not None)
    if told:
        assert told in reasons[0]
        assert report.findings == []
        assert report.together is None


# --- Two ranks ----------------------------------------------------------------------------------------------

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SLEEP = 5_000 * US


def all_reduce(ranks: list[Loop], ns: int) -> None:
    """It is over everywhere so long after the last rank has come."""
    calls = [loop.now for loop in ranks]
    for loop in ranks:
        loop.now += CALL
    starts = [loop.enqueued() for loop in ranks]
    for loop, call, start in zip(ranks, calls, starts, strict=True):
        loop.free = max(starts) + ns
        loop.profile.launch(call, loop.now, start, loop.free, name=NCCL)


def two_ranks(folder: Path, kernel: int, waits: bool = False, sleep: int = SLEEP, older: int | None = None) -> Timeline:
    """Six operators and an all-reduce (50 µs) in 600 µs of the host; rank 1 then sleeps.

    The recording of one rank may have two older collectives, from before it knew of launches.
    """
    ranks = [Loop(rank=0), Loop(rank=1)]
    if older is not None:
        for at in (-400 * US, -200 * US):
            ranks[older].profile.kernel(NCCL, at, at + 100 * US, None)
    for _ in range(8):
        with ExitStack() as stack:
            for loop in ranks:
                stack.enter_context(loop.step())
                for _ in range(5):
                    loop.operator(100 * US, kernel)
            all_reduce(ranks, 50 * US)
            for loop in ranks:
                loop.operator(100 * US - CALL, kernel)
                if waits:
                    loop.wait("cudaDeviceSynchronize")
            ranks[1].now += sleep
    paths = [loop.profile.write(folder / f"rank{rank}.json") for rank, loop in enumerate(ranks)]
    return gpuwhy.load(*map(str, paths))


@pytest.mark.parametrize("older", [None, 0, 1])
def test_collectives_of_two_ranks_are_matched_also_where_one_recorded_more(older: int | None, folder: Path) -> None:
    timeline = two_ranks(folder, SHORT, older=older)
    found = collectives(timeline)
    assert found is not None
    assert found.op.shape == (8, 2)
    ends = timeline.ops.end[found.op]
    assert (ends[:, 0] == ends[:, 1]).all()
    assert (found.transfer == 50 * US).all()  # what rank 0 waited is no part of it


@pytest.mark.parametrize("older", [None, 0, 1])
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("kernel", [SHORT, 250 * US], ids=["host-bound", "device-bound"])
def test_without_the_late_ranks_sleep_the_other_ranks_step_is_shorter(
    kernel: int, waits: bool, older: int | None, folder: Path
) -> None:
    timeline = two_ranks(folder, kernel, waits, older=older)
    host, device = 600 * US, 6 * (kernel + GAP) + 50 * US + GAP
    # With a wait the device is done, at the earliest, a kernel after the last launch, or all of its time after the
    # first one, at 100 µs.
    done = max(host + LATENCY + kernel, 100 * US + LATENCY + device - GAP)
    if kernel == SHORT:  # the all-reduce, launched at 504 µs, ends 50 µs after it could start, and a kernel follows
        done = max(done, 504 * US + LATENCY + 50 * US + GAP + kernel)
    plain = done + RETURN if waits else max(host, device)
    slept = done + RETURN + SLEEP if waits else host + SLEEP
    for rank in (0, 1):
        found = replay_of(timeline, rank)
        setting = setting_of(found)
        sleeping = setting.long(1_000 * US) & (setting.graph.host.thread < len(timeline.threads))
        assert found.error == found.unexplained == 0
        assert found.device_ns is not None
        assert found.step_ns is not None
        assert found.device_ns <= found.step_ns + NEAR  # the other rank is no slower in one than in the other
        assert steady(found) == pytest.approx(slept, abs=NEAR)
        assert steady(found, without_host_time(sleeping)) == pytest.approx(plain, abs=NEAR)
    assert steady(replay_of(two_ranks(folder, kernel, waits, sleep=0))) == pytest.approx(plain, abs=NEAR)
