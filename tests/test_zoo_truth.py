"""The known cause of every planted fault in the zoo of recorded profiles is the largest loss that gpuwhy names.

What each profile must show was fixed beforehand, from how its workload was made, and not from what gpuwhy prints.
Each holds also for a disguised copy: other names of the file, processes, threads and of what users name themselves;
other numbers of processes, threads and streams; the events in another order; all times scaled.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import gpuwhy
from gpuwhy.reports.model import DeviceReport, Report

HOST_BOUND = ("idle/launch", "idle/dispatch", "idle/outside_operators", "idle/device")


def of(device: DeviceReport, *groups: str) -> int:
    return sum(e.ns for e in device.ledger if any(e.account == g or e.account.startswith(g + "/") for g in groups))


def is_host_bound(report: Report) -> None:
    loss = report.devices[0].largest_loss
    assert loss.name == "host-bound"
    assert loss.ns == of(report.devices[0], *HOST_BOUND) > report.devices[0].window_ns / 2
    assert report.verdict.cause == "launch"


def is_busy(account: str, least: float) -> Callable[[Report], None]:
    def check(report: Report) -> None:
        device = report.devices[0]
        assert device.largest_loss.name == account
        assert device.largest_loss.share > least
        assert device.busy_ns > 0.9 * device.window_ns

    return check


def waits_for_input(report: Report) -> None:
    assert report.devices[0].largest_loss.name == "waiting"
    assert report.devices[0].largest_loss.accounts[0] == "idle/input"
    assert of(report.devices[0], "idle/input") > 0.5 * report.devices[0].window_ns
    assert report.verdict.cause == "input"


def hides_its_loader(report: Report) -> None:
    """The loader sets the pace without a profiler (mended: 0.39 of the step); with it, the slowed host hides that.

    What gives it away are the batches that its pinning thread puts into the queue: half as many as the loop takes.
    """
    loss = report.devices[0].largest_loss
    assert loss.name == "host-bound"
    assert report.verdict.cause == "input"
    (note,) = [check for check in report.trust if check.check == "profiler_distortion"]
    assert note.level == "note"
    assert "loader" in note.detail
    assert "hid" in note.detail


def allocates(report: Report) -> None:
    assert report.devices[0].largest_loss.name == "idle/allocator"
    assert report.verdict.cause == "allocator"


def saves_after_copies(report: Report) -> None:
    """Without Python stacks: the host works outside operators, next to the copies of every parameter."""
    device = report.devices[0]
    assert device.largest_loss.name == "host-bound"
    assert device.largest_loss.accounts[0] == "idle/outside_operators"
    assert report.verdict.cause == "checkpoint"
    near = [one for one in device.next_to_copy if one.account.startswith("idle/outside_operators")]
    assert near[0].copy == "busy/copy/d2h"
    assert near[0].ns > 0.9 * of(device, "idle/outside_operators")
    assert near[0].bytes is not None
    assert near[0].bytes > 100_000_000 * len(device.steps)  # the state of a model of 50 M parameters, each step
    assert "copies out to the host" in report.verdict.text


def surrounds_attention_with_elementwise_work(report: Report) -> None:
    device = report.devices[0]
    around = of(device, "busy/softmax", "busy/elementwise")
    assert device.largest_loss.name in ("busy/softmax", "busy/elementwise")
    assert around > 2 * of(device, "busy/matmul")
    assert of(device, "busy/softmax") > 0.1 * device.window_ns


def is_busy_all_the_time(report: Report) -> None:
    device = report.devices[0]
    assert device.busy_ns > 0.95 * device.window_ns


TRUTH: dict[str, Callable[[Report], None]] = {
    "loader_cpu": waits_for_input,
    "loader_few_workers": hides_its_loader,
    "item_every_step": is_host_bound,
    "launch_bound_decode": is_host_bound,
    "loop_optimizer": is_host_bound,
    "batch_too_small": is_host_bound,
    "empty_cache": allocates,
    "pageable_copy": is_busy("busy/copy/h2d_pageable", 0.5),
    "checkpoint_each_step": saves_after_copies,
    "fp32_matmul": is_busy("busy/matmul", 0.9),
    "odd_vocab": is_busy("busy/matmul", 0.5),
    "unfused_elementwise": is_busy("busy/elementwise", 0.5),
    "naive_attention": surrounds_attention_with_elementwise_work,
    "well_fed_gpt": is_busy_all_the_time,
    "eager_stacks": is_busy_all_the_time,
}


@pytest.mark.parametrize("name", TRUTH)
def test_the_largest_loss_is_the_planted_fault(name: str, shared_dir: Path) -> None:
    TRUTH[name](gpuwhy.explain(str(shared_dir / f"zoo/traces/{name}.base.json.gz")))


def test_every_planted_fault_has_its_truth(shared_dir: Path) -> None:
    recorded = {path.name.removesuffix(".base.json.gz") for path in (shared_dir / "zoo/traces").glob("*.base.json.gz")}
    assert recorded == set(TRUTH)


@pytest.mark.parametrize("name", TRUTH)
def test_it_is_so_in_disguise(name: str, shared_dir: Path, tmp_path: Path) -> None:
    path = shared_dir / f"zoo/traces/{name}.base.json.gz"
    plain = gpuwhy.explain(str(path))
    hidden = disguise(path, tmp_path / "p.json", seed=sum(name.encode()), scale=3)
    report = gpuwhy.explain(str(hidden))
    TRUTH[name](report)
    ours, theirs = report.devices[0], plain.devices[0]
    assert {e.account: e.ns for e in ours.ledger} == {e.account: 3 * e.ns for e in theirs.ledger}
    assert ours.window_ns == 3 * theirs.window_ns


def disguise(path: Path, to: Path, seed: int, scale: int) -> Path:
    """A copy of a profile whose events are in another order, under other numbers and labels, `scale` times as long."""
    chance = random.Random(seed)
    with gzip.open(path) as stream:
        document = json.load(stream, parse_float=Decimal)
    events: list[dict[str, Any]] = document["traceEvents"]
    hosts = sorted({(e["pid"], e["tid"]) for e in events if e.get("cat") in ("cpu_op", "cuda_runtime", "cuda_driver")})
    threads = dict(zip(hosts, chance.sample(range(10_000, 99_999), len(hosts)), strict=True))
    process = chance.randrange(1_000, 9_999)
    streams = {7: chance.randrange(20, 99)}
    for event in events:
        arguments = event.get("args", {})
        if "stream" in arguments:
            event["tid"] = arguments["stream"] = streams.get(arguments["stream"], arguments["stream"])
        elif event.get("cat") == "ac2g" and event["ph"] == "f" and (event["pid"], event["tid"]) not in threads:
            event["tid"] = streams.get(event["tid"], event["tid"])
        elif isinstance(event["pid"], int) and isinstance(event["tid"], int) and event["pid"] > 99:
            event["tid"] = threads.get((event["pid"], event["tid"]), event["tid"])
            event["pid"] = process
        if event["ph"] == "M" and "name" in arguments:
            arguments["name"] = f"renamed {chance.random()}"
        for key in ("ts", "dur"):
            if key in event:
                event[key] = Decimal(event[key]) * scale
    chance.shuffle(events)
    document["traceName"] = "renamed"
    to.write_text(_dump(document))
    return to


def _dump(value: Any) -> str:
    """JSON in which decimals keep their digits."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{_dump(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_dump, value)) + "]"
    return json.dumps(value)


def test_stacks_leave_little_unknown(shared_dir: Path) -> None:
    device = gpuwhy.explain(str(shared_dir / "zoo/traces/eager_stacks.base.json.gz")).devices[0]
    assert device.unknown_ns < 0.03 * device.window_ns


@pytest.mark.parametrize("name", TRUTH)
def test_the_unknown_share_is_told_with_what_to_record(name: str, shared_dir: Path) -> None:
    report = gpuwhy.explain(str(shared_dir / f"zoo/traces/{name}.base.json.gz"))
    device = report.devices[0]
    unknown = of(device, "idle/untraced", *(f"idle/outside_operators/{role}" for role in ("main", "backward", "other")))
    assert device.unknown_ns == unknown
    (check,) = [check for check in report.trust if check.check == "host_known"]
    assert (check.level != "ok") == (unknown > 0.03 * device.window_ns)
    assert (check.advice is not None) == (check.level != "ok")


def test_work_of_earlier_steps_is_not_counted(shared_dir: Path) -> None:
    """Nine steps of kernels run inside six recorded steps: divided by six they would read as 397 ms a step.

    The truth is the unprofiled step, 269 ms: the device is busy all the time, so that a profile cannot slow it.
    """
    report = gpuwhy.explain(str(shared_dir / "zoo/traces/fp32_matmul.base.json.gz"))
    truth = next(row for row in json.loads((shared_dir / "zoo/truth.json").read_text()) if row["name"] == "fp32_matmul")
    assert report.step.median_ns == pytest.approx(truth["base"]["step_s"] * 1e9, rel=0.03)


def test_copies_made_ahead_do_not_shorten_the_step(shared_dir: Path) -> None:
    """Pinned batches are copied ahead at the host's pace of 6 ms; the device's step is 22 ms, profiled or not."""
    report = gpuwhy.explain(str(shared_dir / "zoo/traces/pageable_copy.fixed.json.gz"))
    truth = next(
        row for row in json.loads((shared_dir / "zoo/truth.json").read_text()) if row["name"] == "pageable_copy"
    )
    assert report.step.median_ns == pytest.approx(truth["fixed"]["step_s"] * 1e9, rel=0.03)
