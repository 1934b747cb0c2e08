"""What changes make of the host time of a turn, and of the gaps between operations, on loops made to measure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from advising import DEVICE_BOUND, HOST_BOUND, LONG, SHORT, operators, waits
from replaying import GAP, LATENCY, RETURN, US, everywhere, looped, replay, setting_of, steady

from gpuwhy.whatif.changes import host_time, in_one_graph, without_host_time

HOST_STEP = 10 * 100 * US
"""As recorded: the profiler's part is in it."""
TURN = 7
"""Of eight steps the last one, whose end is not recorded, is not repeated."""

# --- Host time ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ns", [900 * US, 600 * US, 1_700 * US])
def test_host_time_becomes_what_is_made_of_all_of_a_turn(ns: int, folder: Path) -> None:
    """The host sets the pace: the device is done in 415 µs a step."""
    found = replay(looped(HOST_BOUND), folder)
    host, _ = everywhere(found)
    assert steady(found, host_time(host, lambda _: TURN * ns)) == pytest.approx(ns)


def test_what_it_is_made_of_is_what_it_takes_now(folder: Path) -> None:
    """All of seven steps of 1,000 µs; and half of that after a change that has halved it."""
    found = replay(looped(HOST_BOUND), folder)
    host, _ = everywhere(found)
    seen: list[float] = []

    def longer(now: float) -> float:
        seen.append(now)
        return now + TURN * 100 * US

    change = host_time(host, longer)
    assert steady(found, change) == pytest.approx(HOST_STEP + 100 * US)
    assert steady(found, without_host_time(host, 0.5), change) == pytest.approx(HOST_STEP / 2 + 100 * US)
    assert seen == [TURN * HOST_STEP, TURN * HOST_STEP / 2]


def test_each_part_of_it_changes_alike_and_the_rest_stays(folder: Path) -> None:
    """Behind a wait the device stands still for the first operator; nine others do not hold it up.

    600 µs of a first operator and 9 · 100 of the others become a third of that: 200 until the first launch. The rest is
    the time of the device, which begins behind it.
    """
    found = replay(looped(operators(1, LONG, 600 * US), operators(9, LONG), waits), folder)
    host, _ = everywhere(found)
    device = LATENCY + 10 * LONG + 9 * GAP + RETURN
    assert steady(found) == pytest.approx(600 * US + device)
    assert steady(found, host_time(host, lambda now: now / 3)) == pytest.approx(200 * US + device)
    first = setting_of(found).long(500 * US)
    assert steady(found, host_time(first, lambda _: 0.0)) == pytest.approx(600 * US - 596 * US + device)
    assert steady(found, host_time(~first, lambda _: 0.0)) == pytest.approx(596 * US + device)
    # What is made of it is made of this part.
    assert steady(found, host_time(first, lambda now: now + TURN * 100 * US)) == pytest.approx(700 * US + device)


def test_where_there_is_no_host_time_nothing_is_made_of_it(folder: Path) -> None:
    found = replay(looped(HOST_BOUND), folder)
    host, _ = everywhere(found)
    assert steady(found, host_time(~host, lambda _: TURN * 500.0 * US)) == HOST_STEP
    gone = without_host_time(host)
    assert steady(found, gone, host_time(host, lambda _: TURN * 500.0 * US)) == steady(found, gone)


# --- Graphs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [0, 500, 1_000])
def test_operations_of_one_graph_follow_each_other_more_closely(gap: int, folder: Path) -> None:
    found = replay(looped(DEVICE_BOUND), folder)
    _, ops = everywhere(found)
    assert steady(found) == 10 * (LONG + GAP)
    assert steady(found, in_one_graph(ops, gap)) == 10 * (LONG + gap)


def test_gaps_that_are_as_short_already_stay(folder: Path) -> None:
    found = replay(looped(DEVICE_BOUND), folder)
    _, ops = everywhere(found)
    assert steady(found, in_one_graph(ops, 2 * GAP)) == 10 * (LONG + GAP)


@pytest.mark.parametrize(("places", "closer"), [([2, 3, 7], 3), ([9], 1), ([0], 0)], ids=str)
def test_the_gap_before_an_operation_is_its_own(places: list[int], closer: int, folder: Path) -> None:
    """Some of ten operations a step are in a graph. Before the first of them the device stands still, for a wait."""
    found = replay(looped(DEVICE_BOUND, waits), folder)
    _, ops = everywhere(found)
    ops[:] = np.isin(np.arange(len(ops)) % 10, places)
    wanted = 100 * US + LATENCY + 10 * LONG + closer * 500 + (9 - closer) * GAP + RETURN
    assert steady(found, in_one_graph(ops, 500)) == wanted


def test_what_an_operation_waits_for_besides_its_stream_is_as_far_away_as_before(folder: Path) -> None:
    """A launch after a wait still reaches the idle device 2 µs later, and the wait still returns after 3."""
    found = replay(looped(DEVICE_BOUND, waits), folder)
    _, ops = everywhere(found)
    assert steady(found, in_one_graph(ops, 500)) == 100 * US + LATENCY + 10 * LONG + 9 * 500 + RETURN


def test_operations_of_a_graph_still_wait_for_their_launches(folder: Path) -> None:
    found = replay(looped(HOST_BOUND), folder)
    host, ops = everywhere(found)
    assert steady(found, in_one_graph(ops, 500)) == HOST_STEP
    assert steady(found, in_one_graph(ops, 500), without_host_time(host)) == 10 * (SHORT + 500)
