"""Findings beside each other: their order, what goes with what, all of them together, and none at all."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from advising import (
    DATA,
    DEVICE_BOUND,
    DEVICE_STEP,
    GRAPH_GAP,
    HOST_BOUND,
    HOST_STEP,
    IN_LOOP,
    LONG,
    NEAR,
    SHORT,
    STARTING,
    WARM,
    calls,
    causes,
    copied_out,
    explained,
    item,
    marked,
    offers,
    operators,
    pageable,
    recorded,
    sleeps,
    unprofiled,
    waits,
)
from events import Profile
from replaying import CALL, GAP, LATENCY, US, Body, looped

import gpuwhy

COLLECTS = marked("gc.collect", 1_500 * US)


# --- Order --------------------------------------------------------------------------------------------------


def test_gains_that_are_about_equal_keep_the_order_of_the_rules(folder: Path) -> None:
    """A sleep that is a little longer than the collection brings a little more, and is named behind it."""
    report = explained(looped(HOST_BOUND, sleeps(1_540 * US), COLLECTS), folder)
    assert causes(report)[:2] == ["garbage_collection", "outside_operators"]
    collected = WARM * (HOST_STEP + unprofiled(1_540 * US))
    slept = WARM * (HOST_STEP + unprofiled(1_500 * US))
    assert offers(report)["gc_off_loop"] == pytest.approx(collected, abs=NEAR)
    assert offers(report)["out_of_loop"] == pytest.approx(slept, abs=NEAR)
    assert 1.0 < collected / slept < 1.1


def test_what_brings_clearly_more_comes_first(folder: Path) -> None:
    report = explained(looped(HOST_BOUND, sleeps(3_000 * US), COLLECTS), folder)
    assert causes(report)[:2] == ["outside_operators", "garbage_collection"]


def test_a_larger_batch_comes_last_whatever_it_brings(folder: Path) -> None:
    """It changes what the program computes: of a finding's mends, and of the findings."""
    (one,) = explained(looped(HOST_BOUND), folder).findings
    assert [mend.id for mend in one.mends] == ["cuda_graphs", "larger_batch"]
    assert one.mends[1].after_over_before.mid < one.mends[0].after_over_before.mid
    report = explained(looped(HOST_BOUND, calls("cudaMalloc", 1_200 * US)), folder)
    assert causes(report) == ["allocator", "launch"]
    first, last = (found.mends[0].after_over_before.mid for found in report.findings)
    assert last < first


def test_a_gain_of_a_larger_batch_is_that_of_a_sample(folder: Path) -> None:
    """Four times as many samples: the device takes 4 × 40 µs and a gap for each of ten kernels."""
    mend = explained(looped(HOST_BOUND), folder).findings[0].mends[1]
    assert mend.samples == 4
    assert mend.step_after_ns.mid == pytest.approx(10 * (4 * SHORT + GAP), abs=NEAR)
    assert mend.after_over_before.mid == pytest.approx(10 * (4 * SHORT + GAP) / 4 / HOST_STEP, rel=0.01)


# --- One that goes with another -----------------------------------------------------------------------------

COMPUTES = operators(1, None, 900 * US, "aten::normal_")


def test_what_is_worth_nothing_once_another_is_mended_is_told_with_that_one(folder: Path) -> None:
    """Without the wait the device sets the pace, and hides the 900 µs that it now stands still for."""
    report = explained(looped(COMPUTES, DEVICE_BOUND, waits), folder)
    assert causes(report) == ["synchronization"]
    assert report.findings[0].explains == ["host_compute"]
    assert offers(report)["no_synchronize"] == pytest.approx(DEVICE_STEP, abs=NEAR)


def test_what_is_still_worth_something_is_a_finding_of_its_own(folder: Path) -> None:
    """Two kinds of long host time that nothing hides."""
    report = explained(looped(HOST_BOUND, sleeps(3_000 * US), COLLECTS), folder)
    assert all("garbage_collection" not in one.explains for one in report.findings)


# --- Together -----------------------------------------------------------------------------------------------

SEVERAL: dict[str, list[Body]] = {
    "input, collection": [marked(IN_LOOP, 2_000 * US), HOST_BOUND, COLLECTS],
    "sleep, wait": [sleeps(3_000 * US), DEVICE_BOUND, waits],
    "copy, number": [pageable(500 * US), DEVICE_BOUND, item, sleeps(400 * US)],
    "memory, sleep, checkpoint": [
        calls("cudaMalloc", 700 * US),
        HOST_BOUND,
        sleeps(1_500 * US),
        marked("save_checkpoint", 1_000 * US),
    ],
    "results, collection": [DEVICE_BOUND, copied_out(300 * US), COLLECTS],
}


@pytest.mark.parametrize("name", SEVERAL)
def test_together_is_no_better_than_the_device_alone_and_no_worse_than_the_best_mend(name: str, folder: Path) -> None:
    report = explained(looped(*SEVERAL[name]), folder)
    assert report.together is not None
    assert report.replay is not None
    both = report.together.after_over_before
    assert both.low <= both.mid <= both.high
    best = min(m.after_over_before.mid for one in report.findings for m in one.mends if m.samples == 1)
    assert both.mid <= best * 1.001
    # A mend can take a copy off the device, too: ten kernels are left in any case.
    kernel = LONG if DEVICE_BOUND in SEVERAL[name] else SHORT
    assert report.together.step_after_ns.mid >= 10 * kernel + 9 * GRAPH_GAP
    assert len(report.together.mends) == len(set(report.together.mends)) >= 1


def test_gains_are_not_added_but_replayed_together(folder: Path) -> None:
    """A sleep behind a wait: without either the device sets the pace; alone they leave the wait, or the sleep."""
    report = explained(looped(DEVICE_BOUND, waits, sleeps(3_000 * US)), folder)
    assert report.together is not None
    assert set(report.together.mends) == {"out_of_loop", "no_synchronize"}
    assert report.together.step_after_ns.mid == pytest.approx(DEVICE_STEP, abs=NEAR)
    alone = offers(report)
    assert alone["no_synchronize"] == pytest.approx(HOST_STEP - STARTING + unprofiled(3_000 * US), abs=NEAR)


# --- None ---------------------------------------------------------------------------------------------------


def test_a_loop_that_no_mend_helps_is_not_healthy_where_nothing_is_known_of_its_busy_time(folder: Path) -> None:
    """Its kernels have no shapes: they could take ten times as long as they must."""
    report = explained(looped(DEVICE_BOUND), folder)
    assert report.findings == []
    assert report.together is None
    assert report.verdict.healthy is None
    assert "99 % of the time" in report.verdict.text
    assert "record_shapes=True" in report.verdict.text
    assert [one.what for one in report.withheld if one.what in {"gains", "healthy"}] == ["healthy"]


def test_a_busy_device_with_shapes_is_not_healthy_without_them(tmp_path: Path) -> None:
    """A recording in which products are in the wrong precision, as it is without `record_shapes`."""
    with gzip.open(DATA / "waste/precision_fp32.json.gz") as file:
        profile = json.load(file)
    for event in profile["traceEvents"]:
        for key in [key for key in event.get("args", {}) if key.startswith(("Input", "Concrete"))]:
            del event["args"][key]
    (tmp_path / "profile.json").write_text(json.dumps(profile))
    report = gpuwhy.explain(str(tmp_path / "profile.json"))
    assert report.findings == []
    assert report.verdict.healthy is None


@pytest.mark.parametrize("name", ["healthy_layers", "healthy_transformer", "fp64_is_no_fault"])
def test_a_healthy_recording_is_called_so(name: str) -> None:
    assert recorded(f"waste/{name}").verdict.healthy is True


def late() -> Profile:
    """The last of ten kernels begins 100 µs after everything that it could wait for."""
    return looped(operators(9, SHORT), lambda loop: loop.operator(100 * US, 10 * US, late=100 * US)).profile


def without_steps() -> Profile:
    """Seven kernels, each another one, and no marks."""
    profile = Profile()
    for number in range(7):
        end = (number + 1) * 100 * US
        profile.operator("aten::mm", end - 100 * US, end)
        profile.launch(end - CALL, end, end + LATENCY, end + LATENCY + SHORT, name=f"kernel {number}")
    return profile


def without_host() -> Profile:
    profile = Profile()
    for at in range(0, 700 * US, 100 * US):
        profile.kernel("kernel", at, at + SHORT, None)
    return profile


WITHHELD = [
    (late, "are delays that nothing recorded explains"),
    (without_steps, "no steps that are whole on host and device"),
    (without_host, "no recorded launch"),
]


@pytest.mark.parametrize(("make", "why"), WITHHELD)
def test_without_a_replay_to_trust_there_are_no_findings_and_the_report_says_why(
    make: Callable[[], Profile], why: str, folder: Path
) -> None:
    report = gpuwhy.explain(str(make().write(folder / "profile.json")))
    reasons = [one.why for one in report.withheld if one.what == "gains"]
    assert len(reasons) == 1
    assert why in reasons[0]
    assert report.findings == []
    assert report.together is None
    assert report.verdict.healthy is None


# --- A step time that is not theirs -------------------------------------------------------------------------


@pytest.mark.parametrize("step_time", [20e-6, 100e-3])
def test_a_step_time_that_no_recorded_step_can_have_had_withholds_gains(step_time: float, folder: Path) -> None:
    """Ten operators of 100 µs: half of them, or three times as long, is thinkable, but neither 20 µs nor 100 ms."""
    report = explained(looped(HOST_BOUND), folder, step_time=step_time)
    assert report.findings == []
    assert report.verdict.healthy is None
    (why,) = [one.why for one in report.withheld if one.what == "gains"]
    assert "is not that of the recorded steps" in why


def test_with_a_step_time_no_one_is_told_to_tell_it(folder: Path) -> None:
    asked, told = (
        [one.advice for one in report.trust if one.check == "profiler_distortion"]
        for report in (explained(looped(HOST_BOUND), folder), explained(looped(HOST_BOUND), folder, step_time=900e-6))
    )
    assert asked == ["tell the step time of an unprofiled run (--step-time)"]
    assert told == [None]
