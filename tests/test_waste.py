"""What is wrong with busy time, on recordings with a planted wrong and a measured mend (H200, PyTorch 2.11).

What each must show follows from how its workload was made. `after_over_before` was measured in turns without a profiler
(`benchmarks/record_waste.py`, the zoo's own script): what gpuwhy says can be saved at most must not be less.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import gpuwhy
from gpuwhy.reports.model import Report
from gpuwhy.reports.roofline_model import RooflineInfo, WasteInfo

DATA = Path(__file__).parent / "data" / "waste"
TRUTH: dict[str, dict[str, Any]] = {row["name"]: row for row in json.loads((DATA / "truth.json").read_text())}
MENDED = sorted(name for name, row in TRUTH.items() if row["cause"])
POINTS = 0.02
"""Bounds are of the profiled window and of busy time, truths of the whole step without a profiler."""

ZOO = {
    "fp32_matmul": ("precision", "bfloat16", ("aten::mm", "aten::addmm")),
    "odd_vocab": ("shape", "50304", ("aten::mm",)),
    "unfused_elementwise": ("elementwise", "torch.compile", ("aten::mul", "aten::add")),
    "eager_stacks": ("elementwise", "torch.compile", ("aten::copy_", "aten::native_layer_norm_backward")),
    "naive_attention": ("attention", "scaled_dot_product_attention", ("aten::copy_", "aten::bmm", "aten::_softmax")),
}


def explained(path: Path) -> tuple[Report, RooflineInfo]:
    report = gpuwhy.explain(str(path))
    (device,) = report.devices
    assert device.roofline is not None
    return report, device.roofline


def worth(found: RooflineInfo) -> list[WasteInfo]:
    return [waste for waste in found.wastes if waste.worth]


@pytest.mark.parametrize("name", MENDED)
def test_a_planted_wrong_is_the_cause_that_is_named(name: str) -> None:
    report, found = explained(DATA / f"{name}.json.gz")
    first = worth(found)[0]
    assert first.cause == report.verdict.cause == TRUTH[name]["cause"]
    assert first.title in (report.verdict.text[0].lower() + report.verdict.text[1:])
    assert first.operators


@pytest.mark.parametrize("name", MENDED)
def test_no_mend_saved_more_than_its_bound(name: str) -> None:
    _, found = explained(DATA / f"{name}.json.gz")
    first = worth(found)[0]
    saved = 1 - TRUTH[name]["after_over_before"]
    assert saved <= first.most_saved_share + POINTS
    assert first.most_saved_share < 2.5 * saved  # and a bound that says something


@pytest.mark.parametrize("name", ["healthy_layers", "healthy_transformer", "fp64_is_no_fault"])
def test_where_nothing_is_wrong_nothing_is_named(name: str) -> None:
    report, found = explained(DATA / f"{name}.json.gz")
    assert not worth(found)
    assert (report.verdict.cause, report.verdict.healthy) == ("healthy", True)
    assert found.known_share > 0.98


@pytest.mark.parametrize("name", ["graph_of_eager", "graph_of_capture"])
def test_replays_have_the_work_of_what_was_captured(name: str) -> None:
    """Four layers of 2 · 2048 · 1024 · 4096 multiply–adds each; one graph launch a step."""
    report, found = explained(DATA / f"{name}.json.gz")
    flops = report.step.count * 4 * 2 * (2 * 2048 * 1024 * 4096)
    assert found.flops == pytest.approx(flops, rel=0.01)  # less what ran while another kernel did
    assert found.known_share == 1


def test_mends_name_what_to_change() -> None:
    words = {
        "layout": "channels_last",
        "recompute": "checkpoint",
        "shape": "8192",
        "unfused_optimizer": "fused=True",
        "precision_tf32": "bfloat16",
        "attention_math": "scaled_dot_product_attention",
        "casts_back_and_forth": "one type",
    }
    for name, word in words.items():
        assert word in worth(explained(DATA / f"{name}.json.gz")[1])[0].mend, name


def test_recomputation_tells_how_much_memory_there_is_to_spare() -> None:
    """The allocator's events are in the file: a small part of 140 GiB was reserved."""
    _, found = explained(DATA / "recompute.json.gz")
    (waste,) = (waste for waste in found.wastes if waste.cause == "recompute")
    assert "or none" in waste.mend
    assert "of 140 GiB" in waste.mend
    assert 0 < found.recomputed_flops < found.flops / 3


@pytest.mark.parametrize("name", sorted(ZOO))
def test_the_zoo_names_the_wrong_thing_the_mend_and_the_operators(name: str, shared_dir: Path) -> None:
    cause, mend, operators = ZOO[name]
    report, found = explained(shared_dir / f"zoo/traces/{name}.base.json.gz")
    first = worth(found)[0]
    assert (first.cause, report.verdict.cause) == (cause, cause)
    assert mend in first.mend
    assert {one.name for one in first.operators} & set(operators) == set(operators)
    truth = {row["name"]: row for row in json.loads((shared_dir / "zoo/truth.json").read_text())}[name]
    assert 1 - truth["after_over_before"] <= first.most_saved_share + POINTS


def test_a_well_fed_model_has_nothing_worth_three_percent(shared_dir: Path) -> None:
    report, found = explained(shared_dir / "zoo/traces/well_fed_gpt.base.json.gz")
    assert not worth(found)
    assert (report.verdict.cause, report.verdict.healthy) == ("healthy", True)


def test_nine_tenths_of_the_zoos_busy_time_have_work_and_bound(shared_dir: Path) -> None:
    """All but the one that replays a graph, of the window and of the whole recording."""
    for path in sorted((shared_dir / "zoo/traces").glob("*.json.gz")):
        if path.name.startswith("launch_bound_decode.fixed"):
            continue
        for window in (None, "all"):
            (device,) = gpuwhy.explain(str(path), window=window).devices  # type: ignore[arg-type]
            assert device.roofline is not None
            assert device.roofline.known_share >= 0.9, (path.name, window)


def test_what_copies_or_the_host_lose_is_not_blamed_on_the_busy_time(shared_dir: Path) -> None:
    for name, cause in {
        "pageable_copy": "host_to_device_copy",
        "loader_cpu": "input",
        "empty_cache": "allocator",
    }.items():
        assert explained(shared_dir / f"zoo/traces/{name}.base.json.gz")[0].verdict.cause == cause
