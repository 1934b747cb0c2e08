"""The report: what the JSON promises, and what the terminal shows."""

from __future__ import annotations

import io
import json
from pathlib import Path

import jsonschema
import msgspec
import pytest
from events import Profile
from rich.console import Console

import gpuwhy
from gpuwhy.reports.json import encode, schema, schema_text
from gpuwhy.reports.model import Report
from gpuwhy.reports.text import render
from gpuwhy.reports.words import MEANING, kernel_name, ms, shorten, size

ROOT = Path(__file__).resolve().parents[1]
DEMO = str(ROOT / "src/gpuwhy/data/demo.pt.trace.json.gz")


@pytest.fixture(scope="module")
def demo() -> Report:
    return gpuwhy.explain(DEMO)


def text(report: Report, width: int = 80) -> str:
    page = io.StringIO()
    render(report, Console(file=page, width=width))
    return page.getvalue()


def test_the_schema_in_the_docs_is_that_of_the_report() -> None:
    assert (ROOT / "docs/report.schema.json").read_text() == schema_text()


def test_json_is_valid_by_its_schema(demo: Report) -> None:
    jsonschema.validate(json.loads(encode(demo)), schema())


def test_json_holds_at_least_what_the_design_promises(demo: Report) -> None:
    document = json.loads(encode(demo))
    assert document["schema"] == 1
    assert {"format", "files", "devices"} <= document["source"].keys()
    assert {"start_ns", "end_ns", "steps", "how"} <= document["window"].keys()
    assert {"count", "median_ns", "p10_ns", "p90_ns", "unprofiled_ns", "samples"} <= document["step"].keys()
    for device in document["devices"]:
        assert {"rank", "device", "name", "window_ns", "busy_ns", "ledger", "hidden"} <= device.keys()
        assert sum(entry["ns"] for entry in device["ledger"]) == device["window_ns"]
    assert all({"check", "level", "detail", "advice"} <= check.keys() for check in document["trust"])
    assert {"text", "healthy", "cause"} <= document["verdict"].keys()
    assert {"replay", "findings", "together", "withheld"} <= document.keys()


def test_what_is_unknown_is_null_and_not_zero(demo: Report) -> None:
    document = json.loads(encode(demo))
    assert document["step"]["unprofiled_ns"] is None
    assert document["step"]["samples"] is None
    assert document["what_if"] is None
    assert gpuwhy.explain(DEMO, window="all").verdict.healthy is None


def test_steps_and_ledger_agree(demo: Report) -> None:
    (device,) = demo.devices
    judged = [step for step in device.steps if not step.startup]
    assert sum(step.ns for step in judged) == device.window_ns
    assert sum(step.busy_ns or 0 for step in judged) == device.busy_ns
    assert demo.step.count == len(judged) == 5
    assert device.left_out == 9


def test_weights_never_exceed_their_account(demo: Report) -> None:
    (device,) = demo.devices
    totals = {entry.account: entry.ns for entry in device.ledger}
    for account, ns in totals.items():
        listed = [weight.ns for weight in device.weights if weight.account == account]
        assert sum(listed) <= ns
        assert listed == sorted(listed, reverse=True)


def test_all_weights_of_an_account_sum_to_it() -> None:
    """With no limit on the list, what is listed is all of the account: calls and kernels miss nothing."""
    (device,) = gpuwhy.explain(DEMO, top=10**6).devices
    for entry in device.ledger:
        listed = sum(weight.ns for weight in device.weights if weight.account == entry.account)
        unnamed = ("idle/device", "idle/untraced", "idle/outside_operators/main", "idle/outside_operators/backward")
        assert listed == (0 if entry.account in unnamed else entry.ns)


def test_a_report_reads_at_80_columns_without_colour(demo: Report) -> None:
    page = text(demo)
    assert "\x1b" not in page
    assert max(map(len, page.splitlines())) <= 80


def test_the_largest_loss_stands_first(demo: Report) -> None:
    lines = [line for line in text(demo).splitlines() if line.strip()]
    assert "Largest loss: the loop waits for its data loader" in " ".join(lines[1:4])


def test_every_share_names_its_denominator(demo: Report) -> None:
    page = text(demo)
    assert "of window" in page
    assert "% of the window" in page


def test_names_from_files_do_not_reach_the_terminal_as_markup_or_escapes(tmp_path: Path) -> None:
    p = Profile()
    p.operator("[red]op[/red]\x1b[2J\n", 0, 50)
    p.launch(10, 20, 100, 200, name="kernel\x1b]0;owned\x07[bold]")
    p.launch(210, 220, 400, 500, name="kernel\x1b]0;owned\x07[bold]")
    page = text(gpuwhy.explain(str(p.write(tmp_path / "p.json")), window="all"))
    assert "\x1b" not in page
    assert "\x07" not in page
    assert "[bold]" in page


def test_many_devices_get_a_line_each(tmp_path: Path) -> None:
    p = Profile()
    for device in range(5):
        p.launch(10, 20, 100, 200 + device, device=device)
    page = text(gpuwhy.explain(str(p.write(tmp_path / "p.json")), window="all"))
    assert sum(line.startswith("  GPU ") for line in page.splitlines()) == 5
    assert "--device" in page


def test_every_account_that_the_code_names_has_a_meaning(demo: Report, shared_dir: Path) -> None:
    seen = {entry.account for device in demo.devices for entry in device.ledger}
    for path in sorted((shared_dir / "zoo/traces").glob("*.base.json.gz")):
        seen |= {entry.account for device in gpuwhy.explain(str(path)).devices for entry in device.ledger}
    frames = {account for account in seen if account.startswith("idle/outside_operators/")}
    assert seen - frames <= MEANING.keys()


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void at::native::foo<4>(int)", "foo<4>"),
        (
            "void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda(at::Iterator&)"
            "::{lambda(float)#1}, std::array<char*, 2ul> >(int, at::native::x)",
            "vectorized_elementwise_kernel ‹bfloat16_copy_kernel_cuda›",
        ),
        (
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        ),
        ("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pinned -> Device)"),
        ("", ""),
    ],
)
def test_kernel_names_lose_what_all_of_them_carry(name: str, short: str) -> None:
    assert kernel_name(name).strip() == short


def test_figures_keep_three_digits() -> None:
    assert [ms(ns) for ns in (1_234_567_890, 12_345_678, 1_234_567, 12_345)] == ["1,235", "12.3", "1.23", "0.012"]
    assert [size(n) for n in (0, 999, 1_000, 15_300, 201_000_000, 3_210_000_000)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "15 kB",
        "201 MB",
        "3.2 GB",
    ]
    assert shorten("abcdefghij", 7) == "abcd…ij"
    assert len(shorten("abcdefghij", 7)) == 7


def test_a_report_survives_the_way_through_json(demo: Report) -> None:
    assert msgspec.json.decode(encode(demo).encode(), type=Report) == demo


def test_the_readme_shows_the_real_output(demo: Report) -> None:
    shown = (ROOT / "README.md").read_text().split("```text\n")[1].split("```")[0]
    assert shown.splitlines()[1:] == text(demo).splitlines()[1:]  # the first line holds the path


def test_a_damaged_file_is_explained_but_no_cause_is_claimed(tmp_path: Path) -> None:
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes(Path(DEMO).read_bytes()[:460_000])
    report = gpuwhy.explain(str(cut))
    assert report.sound
    assert report.verdict.cause is None
    assert "Why it is idle is not told" in report.verdict.text
    assert sum(entry.ns for entry in report.devices[0].ledger) == report.devices[0].window_ns
    assert "lower bound" in " ".join(text(report).split())
