"""Batches from worker processes: which of them the loop waited for, and the pace that their making sets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from advising import FROM_WORKERS, LONG, NEAR, OTHER, SHORT, batch_taken, operators
from replaying import CALL, GAP, US, Body, Loop, looped, replay, setting_of, steady

import gpuwhy
from gpuwhy.ledger.partition import basis
from gpuwhy.whatif.changes import without_host_time
from gpuwhy.whatif.loader import Deliveries, arrivals, deliveries

TAKING = 50 * US
"""What taking a batch takes, once it is there."""
WORK = 1_000 * US
"""Ten operators of 100 µs: the rest of a step on the host."""

# --- Which batches were waited for --------------------------------------------------------------------------


def taken(*waits: float) -> Body:
    """Batches, each after a wait of so many ms, and 10 ms of work between them."""

    def body(loop: Loop) -> None:
        for ms in waits:
            start, loop.now = loop.now, loop.now + int(ms * 1_000 * US) + TAKING
            loop.profile.annotation(FROM_WORKERS, start, loop.now)
            loop.operator(10_000 * US, 10 * US)

    return body


def deliveries_of(body: Body, folder: Path) -> Deliveries:
    path = looped(body, steps=1).profile.write(folder / "loader.json")
    return deliveries(basis(gpuwhy.load(str(path))))


NOT, YES = False, True


@pytest.mark.parametrize(
    ("waits", "waited", "paced", "timely"),
    [
        # Workers were at it all the time from the first wait to the last one; before and after they went on from what
        # was taken.
        ([0, 3, 0, 3, 0], [NOT, YES, NOT, YES, NOT], [NOT, YES, YES, YES, NOT], [YES, NOT, NOT, NOT, YES]),
        ([0, 0, 0, 3], [NOT, NOT, NOT, YES], [NOT, NOT, NOT, YES], [YES, YES, YES, NOT]),
        ([3, 3, 3], [YES] * 3, [YES] * 3, [NOT] * 3),
        # Where the loop hardly waits, nothing is known of the workers.
        ([0.9, 0.9, 0.9], [NOT] * 3, [NOT] * 3, [NOT] * 3),
    ],
)
def test_what_was_waited_for_tells_when_workers_were_at_it(
    waits: list[float], waited: list[bool], paced: list[bool], timely: list[bool], folder: Path
) -> None:
    found = deliveries_of(taken(*waits), folder)
    assert found.waited.tolist() == waited
    assert found.paced.tolist() == paced
    assert found.timely.tolist() == timely


@pytest.mark.parametrize(("ms", "waits"), [(2.0, True), (1.1, False)])
def test_a_wait_in_much_work_is_none(ms: float, waits: bool, folder: Path) -> None:
    """Of about 80 ms that go by until the last of nine batches, 2.5 % are a wait, or 1.4."""
    found = deliveries_of(taken(0, 0, 0, ms, 0, 0, 0, 0, 0), folder)
    assert found.waited.any() == found.paced.any() == found.timely.any() == waits


# --- Recordings that replay as they were --------------------------------------------------------------------
# The imagined workers make batch i by a time of their own; the loop takes it then, or when it comes to it.


def made(ready: Callable[[int], int]) -> Body:
    """The next batch, that is there by so many ns after the start."""
    number = 0

    def body(loop: Loop) -> None:
        nonlocal number
        start, loop.now = loop.now, max(loop.now, ready(number)) + TAKING
        loop.profile.annotation(FROM_WORKERS, start, loop.now)
        number += 1

    return body


EACH = 5_000 * US
"""A worker makes a batch in twice that."""


@pytest.mark.parametrize("kernel", [SHORT, LONG], ids=["short kernels", "long kernels"])
@pytest.mark.parametrize("steps", [8, 12])
@pytest.mark.parametrize("begun", [False, True], ids=["from a burst on", "within a burst"])
def test_two_workers_that_deliver_at_once_set_the_pace_of_every_second_step(
    begun: bool, steps: int, kernel: int, folder: Path
) -> None:
    """Each makes a batch in 10 ms: two are there every 10 ms, and the loop waits for the first and has the second.

    Recording begins with the first or with the second one of two.
    """
    take, work = made(lambda number: number // 2 * 2 * EACH), operators(10, kernel)

    def before(loop: Loop) -> None:
        take(loop)
        work(loop)

    found = replay(looped(take, work, steps=steps + 1, before=before if begun else None), folder)
    setting = setting_of(found)
    assert found.error == pytest.approx(0, abs=0.02)
    assert found.recorded_ns == pytest.approx(EACH, rel=0.001)
    assert steady(found) == pytest.approx(EACH, rel=0.02)
    assert steady(found, without_host_time(setting.producing, 2.0)) == pytest.approx(2 * EACH, rel=0.02)
    # Of calls that waited nothing is known but their wait: every second one takes its 50 µs.
    plain = max(WORK + TAKING / 2, 10 * (kernel + GAP))
    assert steady(found, without_host_time(setting.producing)) == pytest.approx(plain, abs=NEAR)


@pytest.mark.parametrize("there", [1, 2, 4])
def test_workers_go_on_from_the_last_batch_that_was_there(there: int, folder: Path) -> None:
    """So many batches are there at the start; each further one is there 3 ms after the one before.

    The workers go on while the loop takes what there is. Of eight steps the first ones are short, the others wait.
    """
    ready = [0] * there + [3_000 * US * (number + 1) for number in range(9)]
    found = replay(looped(made(ready.__getitem__), operators(10, SHORT), steps=9), folder)
    assert found.error == pytest.approx(0, abs=0.001)
    # The ninth batch begins the step behind the last one; the first step began when its batch had been taken.
    wanted = ready[8] / 8
    assert found.recorded_ns == pytest.approx(wanted, rel=0.001)
    assert steady(found) == pytest.approx(wanted, rel=0.001)


def test_what_workers_did_while_batches_were_there_is_not_known(folder: Path) -> None:
    """Five batches are there at the start, and a worker makes each further one in 3 ms from the taking of the fifth on.

    In eight steps it makes four, the first one with 50 µs for the taking, and is at work until the launch that begins
    the next eight, 100 µs. That is all that they take if nothing else takes the loop any time.
    """
    fifth = 4 * (TAKING + WORK) + TAKING
    ready = [0] * 5 + [fifth + 3_000 * US * (number + 1) for number in range(4)]
    found = replay(looped(made(ready.__getitem__), operators(10, SHORT), steps=9), folder)
    loop = ~setting_of(found).producing
    assert steady(found) == pytest.approx(ready[8] / 8)
    wanted = (4 * 3_000 * US + TAKING + 100 * US) / 8
    assert steady(found, without_host_time(loop)) == pytest.approx(wanted)


# --- Batches that were pinned while the loop took more ------------------------------------------------------


def test_a_queue_that_is_used_up_is_seen_by_what_is_pinned(folder: Path) -> None:
    """In eight steps of 1,014 µs the loop takes eight batches, and three are pinned, one in each third step.

    By their number they come every 8 / 3 steps, by the time between them every 3: in between lies the pace.
    """
    path = looped(batch_taken(3), operators(10, SHORT)).profile.write(folder / "taken.json")
    found = arrivals(basis(gpuwhy.load(str(path))))
    assert found is not None
    assert (found.made, found.taken) == (3, 8)
    assert found.pace_ns == pytest.approx((8 / 3 + 3) / 2 * (WORK + 10 * US + CALL))


def test_batches_of_several_ranks_are_not_counted_together(folder: Path) -> None:
    """Two ranks that take what is pinned one by one: together twice as much is taken as either pins."""
    paths = [
        looped(batch_taken(1), operators(10, SHORT), rank=rank).profile.write(folder / f"taken{rank}.json")
        for rank in (0, 1)
    ]
    assert arrivals(basis(gpuwhy.load(*map(str, paths)))) is None


def test_batches_of_several_threads_are_not_counted_together(folder: Path) -> None:
    """A second thread takes batches, too (a validation loader, say): one is pinned for two that are taken."""

    def beside(loop: Loop) -> None:
        loop.profile.annotation(FROM_WORKERS, loop.now, loop.now + 10 * US, OTHER + 1)

    path = looped(beside, batch_taken(1), operators(10, SHORT)).profile.write(folder / "taken.json")
    assert arrivals(basis(gpuwhy.load(str(path)))) is None
