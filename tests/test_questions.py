"""`--what-if`: what is a question, and its answers on loops whose steps are known by construction."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from advising import (
    BYTES,
    DEVICE_BOUND,
    DEVICE_STEP,
    HOST_BOUND,
    HOST_STEP,
    IN_LOOP,
    LONG,
    NEAR,
    SHORT,
    STARTING,
    WARM,
    batch_taken,
    copied_out,
    explained,
    item,
    marked,
    operators,
    recorded,
    sleeps,
    unprofiled,
    waits,
)
from replaying import CALL, GAP, LATENCY, RETURN, US, Body, looped

import gpuwhy
from gpuwhy.__main__ import main
from gpuwhy.errors import GpuwhyError
from gpuwhy.findings.questions import NAMES, WITH_VALUE, parse
from gpuwhy.reports.findings_model import WhatIfInfo


def asked(question: str, *bodies: Body, folder: Path, steps: int = 8) -> WhatIfInfo:
    found = explained(looped(*bodies, steps=steps), folder, what_if=question).what_if
    assert found is not None
    return found


# --- What is a question -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("magic", "magic"),
        ("sync,magic", "magic"),
        ("", "not a change"),
        (",", "not a change"),
        ("sync,", "not a change"),
        ("sync=", "sync="),
        ("=0.5", "=0.5"),
        ("precision", "bf16, fp16, tf32, fp32, fp64 or fp8"),
        ("batch", "so many times as large"),
        ("host=", "twice as fast"),
        ("device", "so many times as long"),
        ("Sync", "Sync"),
    ],
)
def test_what_is_no_change_is_told_with_what_is_one(text: str, told: str) -> None:
    with pytest.raises(GpuwhyError) as caught:
        parse(text)
    assert told in str(caught.value)
    assert caught.value.hint is not None
    assert all(name in caught.value.hint for name in (*NAMES, *WITH_VALUE))


@pytest.mark.parametrize(
    "text",
    [
        *("sync=x", "sync=1.5", "sync=-0.1", "sync=nan", "sync=inf", "checkpoint=2"),
        *("batch=0", "batch=-2", "batch=nan", "batch=many", "host=0", "device=1e9", "device=inf"),
    ],
)
def test_a_value_that_is_no_part_and_no_factor_is_refused(text: str) -> None:
    with pytest.raises(GpuwhyError, match=text.replace(".", r"\.")):
        parse(text)


def test_names_and_values_are_read_around_spaces() -> None:
    found = [(one.name, one.value) for one in parse(" input , sync = 0.5,precision=bf16,gc_off_loop")]
    assert found == [("input", None), ("sync", "0.5"), ("precision", "bf16"), ("gc_off_loop", None)]


def test_every_documented_name_is_a_change() -> None:
    text = (Path(__file__).resolve().parents[1] / "docs/whatif.md").read_text()
    for name in NAMES:
        assert f"`{name}`" in text
        assert [one.name for one in parse(name)] == [name]
    for name in WITH_VALUE:
        assert f"`{name}=`" in text


# --- Answers ------------------------------------------------------------------------------------------------

FACTORS = [(0.5, 1.0), (1.0, 2.0), (0.5, 2.0), (2.0, 0.5), (3.0, 1.0)]


@pytest.mark.parametrize("kernel", [10 * US, SHORT, LONG])
@pytest.mark.parametrize(("host", "device"), FACTORS)
def test_a_step_is_the_larger_of_what_host_and_device_then_take(
    host: float, device: float, kernel: int, folder: Path
) -> None:
    found = asked(f"host={host},device={device}", operators(10, kernel), folder=folder)
    wanted = max(host * HOST_STEP, 10 * (device * kernel + GAP))
    assert found.step_after_ns.mid == pytest.approx(wanted, abs=NEAR)
    before = max(HOST_STEP, 10 * (kernel + GAP))
    assert found.after_over_before.mid == pytest.approx(wanted / before, rel=0.005)
    assert found.changes == [f"host={host}", f"device={device}"]
    assert found.nothing == []


SLEEP = 900 * US


def test_half_of_the_waits_lie_between_none_and_all(folder: Path) -> None:
    """A sleep, ten operators with kernels of 180 µs, a wait; every second one is left.

    The host then comes back to launch while the device still works on what was launched before, but for the step
    behind the wait: there the device stands still until the sleep and the first operator are over. 8 steps are judged.
    """
    loop = [sleeps(SLEEP), DEVICE_BOUND, waits]
    until_first = unprofiled(SLEEP) + unprofiled(100 * US - CALL, CALL) + LATENCY
    with_all = until_first + DEVICE_STEP - GAP + RETURN
    after = {text: asked(text, *loop, folder=folder, steps=9).step_after_ns.mid for text in ("sync", "sync=0.5")}
    assert after["sync"] == pytest.approx(DEVICE_STEP, abs=NEAR)
    assert after["sync=0.5"] == pytest.approx((with_all + DEVICE_STEP) / 2, abs=NEAR)
    assert asked("sync=1", *loop, folder=folder, steps=9).step_after_ns.mid == pytest.approx(with_all, abs=NEAR)


@pytest.mark.parametrize("left", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(
    ("name", "mark"), [("gc", "gc.collect"), ("checkpoint", "save_checkpoint"), ("recompile", "backend_compile")]
)
def test_of_host_time_a_part_is_left(name: str, mark: str, left: float, folder: Path) -> None:
    """Where it is gone the rest of the host is warmer, too; a part that is left lies in between."""
    found = asked(f"{name}={left}", HOST_BOUND, marked(mark, 1_500 * US), folder=folder)
    now, mended = HOST_STEP + unprofiled(1_500 * US), WARM * HOST_STEP
    assert found.step_after_ns.mid == pytest.approx(left * now + (1 - left) * mended, abs=NEAR)


def test_copies_that_are_left_in_part_take_a_part_of_their_time(folder: Path) -> None:
    """Storages are copied for 2 ms on a device that has little else to do."""
    loop = [HOST_BOUND, copied_out(2_000 * US, tensor=BYTES)]
    none, half = (asked(text, *loop, folder=folder).step_after_ns.mid for text in ("checkpoint", "checkpoint=0.5"))
    all_ = asked("checkpoint=1", *loop, folder=folder).step_after_ns.mid
    assert none < half < all_


def test_a_larger_batch_scales_what_is_done_for_each_sample(folder: Path) -> None:
    """Four times 3 ms for the batch, and what the host does for a step."""
    found = asked("batch=4", marked(IN_LOOP, 3_000 * US), HOST_BOUND, folder=folder)
    after = 4 * 3_000 * US + HOST_STEP
    assert found.samples == 4
    assert found.step_after_ns.mid == pytest.approx(after, abs=NEAR)
    assert found.after_over_before.mid == pytest.approx(after / 4 / (3_000 * US + HOST_STEP), rel=0.005)


@pytest.mark.parametrize("times", [0.5, 2.0, 8.0])
def test_kernels_of_which_nothing_is_known_grow_with_the_batch(times: float, folder: Path) -> None:
    found = asked(f"batch={times}", DEVICE_BOUND, folder=folder)
    after = max(HOST_STEP, 10 * (times * LONG + GAP))
    assert found.step_after_ns.mid == pytest.approx(after, abs=NEAR)


def test_a_loader_sets_the_pace_of_a_larger_batch_too(folder: Path) -> None:
    """A batch is pinned for every second one that is taken: about two steps' time each."""
    loop = [batch_taken(2), DEVICE_BOUND]
    once = asked("device=1", *loop, folder=folder).step_after_ns.mid
    assert asked("batch=4", *loop, folder=folder).step_after_ns.mid == pytest.approx(4 * once, rel=0.02)


def test_changes_are_replayed_together(folder: Path) -> None:
    """Without the sleep the wait is still there, without the wait the sleep: only both leave the device's own time."""
    loop = [DEVICE_BOUND, waits, sleeps(3_000 * US)]
    until_first = WARM * unprofiled(100 * US - CALL, CALL) + LATENCY
    waited = until_first + DEVICE_STEP - GAP + RETURN
    assert asked("outside", *loop, folder=folder).step_after_ns.mid == pytest.approx(waited, abs=NEAR)
    assert asked("sync", *loop, folder=folder).step_after_ns.mid == pytest.approx(
        HOST_STEP - STARTING + unprofiled(3_000 * US), abs=NEAR
    )
    both = asked("sync,outside", *loop, folder=folder)
    assert both.changes == ["sync", "outside"]
    assert both.step_after_ns.mid == pytest.approx(DEVICE_STEP, abs=NEAR)


def test_a_mend_goes_by_its_own_name_too(folder: Path) -> None:
    loop = [sleeps(SLEEP), DEVICE_BOUND, item]
    assert asked("no_item", *loop, folder=folder).step_after_ns == asked("sync", *loop, folder=folder).step_after_ns


@pytest.mark.parametrize(
    "name", ["gc", "sync", "input", "copies", "checkpoint", "recompile", "attention", "communication", "straggler"]
)
def test_what_a_profile_has_nothing_of_is_listed_and_changes_nothing(name: str, folder: Path) -> None:
    found = asked(f"{name},device=1", DEVICE_BOUND, folder=folder)
    assert found.nothing == [name]
    assert found.after_over_before == asked("device=1", DEVICE_BOUND, folder=folder).after_over_before
    assert found.after_over_before.mid == 1.0
    assert found.step_after_ns.mid == pytest.approx(DEVICE_STEP, abs=NEAR)


def test_a_precision_is_nothing_where_nothing_is_known_to_multiply(folder: Path) -> None:
    assert asked("precision=bf16", DEVICE_BOUND, folder=folder).nothing == ["precision"]


def test_a_question_is_answered_however_little_it_brings(folder: Path) -> None:
    """A collection of 10 µs in 1 ms is no finding."""
    report = explained(looped(HOST_BOUND, marked("gc.collect", 10 * US)), folder, what_if="gc")
    assert "garbage_collection" not in [one.cause for one in report.findings]
    assert report.what_if is not None
    assert report.what_if.nothing == []
    assert report.what_if.step_after_ns.mid == pytest.approx(HOST_STEP, abs=US)
    assert report.what_if.after_over_before.mid == pytest.approx(
        HOST_STEP / (HOST_STEP + unprofiled(10 * US)), rel=1e-3
    )


def test_products_in_another_precision_gain_what_the_finding_says() -> None:
    report = recorded("waste/precision_fp32", what_if="precision=bf16")
    (mend,) = [mend for one in report.findings for mend in one.mends if mend.id == "precision"]
    assert report.what_if is not None
    assert report.what_if.after_over_before.mid == pytest.approx(mend.after_over_before.mid, rel=0.15)
    # fp8 units multiply twice as fast as those for bf16, which multiply twice as fast as those for tf32.
    gains = {}
    for precision in ("tf32", "fp8", "fp32"):
        found = recorded("waste/precision_fp32", what_if=f"precision={precision}").what_if
        assert found is not None
        gains[precision] = found.after_over_before.mid
    assert gains["fp8"] < report.what_if.after_over_before.mid < gains["tf32"] < gains["fp32"] <= 1.0


def test_a_question_without_trusted_gains_has_no_answer(folder: Path) -> None:
    loop = looped(operators(9, SHORT), lambda loop: loop.operator(100 * US, 10 * US, late=100 * US))
    report = explained(loop, folder, what_if="sync")
    assert report.what_if is None
    assert "gains" in [one.what for one in report.withheld]


# --- The command line ---------------------------------------------------------------------------------------


@pytest.fixture
def path(folder: Path) -> str:
    return str(looped(sleeps(SLEEP), DEVICE_BOUND, waits).profile.write(folder / "asked.json"))


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    monkeypatch.setattr(sys, "argv", ["gpuwhy", "explain", *arguments])
    try:
        main()
    except SystemExit as leaving:
        return leaving.code or 0
    return 0


def test_the_command_prints_the_answer(
    path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, path, "--what-if", "sync, gc") == 0
    out = capsys.readouterr().out
    assert "what if: sync, gc" in out
    assert "nothing to change in this profile, or it cannot be done: gc" in out
    assert f"→ {DEVICE_STEP / 1e6:.2f}" in out
    assert run(monkeypatch, path, "--what-if", "sync,gc", "--json") == 0
    document = json.loads(capsys.readouterr().out)["what_if"]
    assert document["changes"] == ["sync", "gc"]
    assert document["nothing"] == ["gc"]


@pytest.mark.parametrize("question", ["magic", "sync=2", "precision", ""])
def test_a_slip_is_told_before_anything_is_read(
    question: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No such file is there to be read."""
    assert run(monkeypatch, str(folder / "absent.json"), "--what-if", question) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "--what-if" in captured.err
    assert "absent.json" not in captured.err


def test_a_slip_in_python_is_an_error_of_gpuwhy(path: str) -> None:
    with pytest.raises(GpuwhyError, match="magic"):
        gpuwhy.explain(path, what_if="magic")


@pytest.mark.parametrize(
    "question",
    ["sync,sync=0.5", "sync,no_item", "batch=10,batch=10", "precision=bf16,precision=fp64", "workers=2,input"],
)
def test_no_change_is_asked_for_twice(question: str) -> None:
    with pytest.raises(GpuwhyError, match="is asked for twice"):
        parse(question)


@pytest.mark.parametrize("pair", [("precision=bf16", "device=0.5"), ("compile", "graphs"), ("batch=4", "device=2")])
def test_the_order_in_which_changes_are_asked_for_does_not_matter(pair: tuple[str, str]) -> None:
    there, back = (recorded("waste/precision_fp32", what_if=",".join(some)).what_if for some in (pair, reversed(pair)))
    assert there is not None
    assert back is not None
    assert there.after_over_before == back.after_over_before


def test_a_faster_device_is_faster_in_another_precision_too() -> None:
    """Half of what is left: nearly all of that step is the device's."""
    slow, fast = (
        recorded("waste/precision_fp32", what_if=f"precision=bf16,device={times}").what_if for times in (1, 0.5)
    )
    assert slow is not None
    assert fast is not None
    assert fast.after_over_before.mid == pytest.approx(slow.after_over_before.mid / 2, rel=0.1)
