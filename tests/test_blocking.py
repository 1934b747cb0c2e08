"""Calls that wait for the device: what one that was too late to wait does once the device is slower.

`BEHIND` is when a step is over whose last kernel is the slowest thing in it: its launch at 100 µs, 2 until it starts,
and its own time.
"""

from __future__ import annotations

from pathlib import Path

from replaying import LATENCY, RETURN, US, Body, Loop, everywhere, looped, replay, steady

from gpuwhy.whatif.changes import lasting

SLOWER = 100.0
BEHIND = 100 * US + LATENCY + 1_000 * US
UNSEEN = 3_500
"""From an operation's end to the return of a call that waits for it, where no call of the recording did (measured on an
H200)."""
SLOW_RETURN = 7 * US


def too_late(call: str, ns: int = 0) -> Body:
    """A kernel that is over long before the host asks for it: it takes 10 of 500 µs."""

    def body(loop: Loop) -> None:
        loop.operator(100 * US, 10 * US)
        loop.operator(500 * US)
        loop.wait(call, ns)

    return body


def in_time(loop: Loop) -> None:
    """A wait that returns 7 µs after the kernel is over."""
    loop.operator(100 * US, 50 * US)
    loop.wait("cudaStreamSynchronize", SLOW_RETURN - RETURN)


def test_where_no_call_waited_one_would_return_as_calls_do_elsewhere(folder: Path) -> None:
    found = replay(looped(too_late("cudaDeviceSynchronize")), folder)
    _, ops = everywhere(found)
    assert found.error == 0
    assert steady(found) == 600 * US + RETURN
    assert steady(found, lasting(ops, SLOWER)) == BEHIND + UNSEEN


def test_a_call_that_came_too_late_would_return_as_those_did_that_waited(folder: Path) -> None:
    """Two kernels, of 50 and 10 µs, each with a wait for it; only the first was in time. Then both are."""
    found = replay(looped(in_time, too_late("cudaDeviceSynchronize")), folder)
    _, ops = everywhere(found)
    first = 100 * US + LATENCY + SLOW_RETURN
    assert found.error == 0
    assert steady(found) == first + 50 * US + 600 * US + RETURN
    assert steady(found, lasting(ops, SLOWER)) == first + 5_000 * US + BEHIND + SLOW_RETURN


def test_a_call_that_returned_at_once_after_the_operation_still_does(folder: Path) -> None:
    """It begins 1 µs after the kernel has ended, and takes 2: no later, though another one took 7 after its kernel."""

    def just_late(loop: Loop) -> None:
        loop.operator(100 * US, 10 * US)
        loop.now = loop.free + US
        loop.call("cudaStreamSynchronize", 2 * US)

    found = replay(looped(in_time, just_late), folder)
    _, ops = everywhere(found)
    first = 100 * US + LATENCY + SLOW_RETURN
    assert found.error == 0
    assert steady(found) == first + 50 * US + 100 * US + LATENCY + 10 * US + 3 * US
    assert steady(found, lasting(ops, SLOWER)) == first + 5_000 * US + BEHIND + 3 * US


def test_a_call_that_frees_memory_too_late_to_wait_is_over_with_a_slower_device(folder: Path) -> None:
    """Freeing takes 200 µs of its own, which it does while the device works: of its waiting nothing is known."""
    found = replay(looped(in_time, too_late("cudaFree", 200 * US)), folder)
    _, ops = everywhere(found)
    first = 100 * US + LATENCY + SLOW_RETURN
    assert found.error == 0
    assert steady(found) == first + 50 * US + 600 * US + RETURN + 200 * US
    assert steady(found, lasting(ops, SLOWER)) == first + 5_000 * US + BEHIND


def test_calls_that_free_memory_say_nothing_of_how_others_return(folder: Path) -> None:
    """They wait, and then give back pages for 200 µs: the wait that was too late would return sooner."""

    def frees(loop: Loop) -> None:
        loop.operator(100 * US, 50 * US)
        loop.wait("cudaFree", 200 * US)

    found = replay(looped(frees, too_late("cudaDeviceSynchronize")), folder)
    _, ops = everywhere(found)
    first = 100 * US + LATENCY + RETURN + 200 * US
    assert found.error == 0
    assert steady(found, lasting(ops, SLOWER)) == first + 5_000 * US + BEHIND + UNSEEN
