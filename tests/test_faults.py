"""Recordings with a planted fault (benchmarks/record_faults.py, NVIDIA H200, PyTorch 2.11): the cause by its name.

What each must show follows from how its loop was made, not from what gpuwhy printed.
"""

from __future__ import annotations

from pathlib import Path

import gpuwhy
from gpuwhy.reports.model import DeviceReport, Report

DATA = Path(__file__).parent / "data"


def explained(name: str) -> tuple[Report, DeviceReport, dict[str, int]]:
    report = gpuwhy.explain(str(DATA / f"{name}.json.gz"))
    (device,) = report.devices
    ledger = {entry.account: entry.ns for entry in device.ledger}
    assert sum(ledger.values()) == device.window_ns
    return report, device, ledger


def test_garbage_collection_is_named() -> None:
    report, device, ledger = explained("gc_each_step")
    assert device.largest_loss.name == "idle/gc"
    assert report.verdict.cause == "garbage_collection"
    assert ledger["idle/gc"] > 0.8 * device.window_ns


def test_a_sleep_is_told_by_its_frame_and_length() -> None:
    """20 ms a step of sleep, less what the device still works while the host sleeps already."""
    report, device, ledger = explained("sleep_each_step")
    slept = [
        ns for account, ns in ledger.items() if account.startswith("idle/outside_operators/") and "sleep" in account
    ]
    assert report.verdict.cause == "outside_operators"
    assert "sleep" in report.verdict.text
    assert 0.9 * 20e6 < sum(slept) / report.step.count < 20.5e6
    assert device.unknown_ns < 0.03 * device.window_ns


def test_graph_replays_are_work_and_the_host_between_them_is_not() -> None:
    report, device, ledger = explained("graph_decode")
    slept = [
        ns for account, ns in ledger.items() if account.startswith("idle/outside_operators/") and "sleep" in account
    ]
    assert 0.8 * 2e6 < sum(slept) / report.step.count < 2.3e6  # 2 ms, less what the replay still runs then
    assert device.operations % report.step.count == 0  # every replay runs the same kernels
    assert 0 < device.busy_ns < device.window_ns - sum(slept)
    assert all(check.level in ("ok", "note") for check in report.trust)


def test_compilation_is_named() -> None:
    """PyTorch writes the marks of its compiler as operators: the host is in operators nearly all of the time."""
    report, device, ledger = explained("recompile_each_step")
    assert device.largest_loss.name == "idle/compile"
    assert report.verdict.cause == "compile"
    assert ledger["idle/compile"] > 0.9 * device.window_ns
