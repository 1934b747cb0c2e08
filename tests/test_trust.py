"""Each check fires just above its threshold and is silent just below; the shares are worked out by hand here.

Profiles are judged whole (`window="all"`) unless a test is about steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import needs_shared
from events import MAIN, Profile
from typer.testing import CliRunner

import gpuwhy
from gpuwhy import trust
from gpuwhy.__main__ import app
from gpuwhy.ledger.partition import balance, basis
from gpuwhy.reports.model import CheckInfo, Report
from gpuwhy.steps import Selection, window

WORKER_LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
OWN_LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def explain(profile: Profile | str, folder: Path, window: Any = "all") -> Report:
    path = folder / "profile.json"
    path.write_text(profile if isinstance(profile, str) else profile.text())
    return gpuwhy.explain(str(path), window=window)


def found(report: Report, check: str) -> CheckInfo | None:
    return next((one for one in report.trust if one.check == check), None)


def level(report: Report, check: str) -> str | None:
    one = found(report, check)
    return one and one.level


def launches(count: int, profile: Profile | None = None, **more: Any) -> Profile:
    """Launch i [1000 i, 1000 i + 100) and its kernel [1000 i + 200, 1000 i + 1100)."""
    p = profile or Profile()
    for i in range(count):
        p.launch(1000 * i, 1000 * i + 100, 1000 * i + 200, 1000 * i + 1100, **more)
    return p


def test_every_threshold_has_a_reason_and_its_check() -> None:
    for name, limit in trust.LIMITS.items():
        assert limit.of, name
        assert limit.why, name
        assert limit.warn is not None or limit.fail is not None
        assert limit.warn is None or limit.fail is None or limit.warn < limit.fail


# --- recording_complete -------------------------------------------------------------------------------------


def test_a_recording_cut_short(tmp_path: Path) -> None:
    whole = launches(20).text()
    assert level(explain(whole, tmp_path), "recording_complete") == "ok"
    cut = explain(whole[: len(whole) * 3 // 4], tmp_path)
    assert level(cut, "recording_complete") == "warn"
    assert cut.sound


def test_entries_that_are_no_events(tmp_path: Path) -> None:
    text = launches(3).text().replace('"traceEvents": [', '"traceEvents": [17,')
    one = found(explain(text, tmp_path), "recording_complete")
    assert one is not None
    assert (one.level, one.detail) == ("warn", "1 entries of the event list are not events")


# --- times_plausible ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operators", "bad", "wanted"),
    [(198, 0, "ok"), (198, 2, "warn"), (197, 3, "fail")],  # 2 kernels' worth of 4 events; of 204: 0.98 %, 1.47 %
)
def test_times_of_events(tmp_path: Path, operators: int, bad: int, wanted: str) -> None:
    p = launches(2)
    for i in range(operators):
        p.operator("aten::add", 10 * i, 10 * i + 5)
    for i in range(bad):
        p.raw(f'"ts": {i}, "dur": -1', cat="cpu_op", name="aten::mul", pid=MAIN, tid=MAIN)
    report = explain(p, tmp_path)
    assert level(report, "times_plausible") == wanted
    assert report.sound == (wanted != "fail")


def test_times_of_the_work_itself_count_by_themselves(tmp_path: Path) -> None:
    """One kernel of 50 is 2 % of the work, though only 0.2 % of the events."""
    p = launches(49)
    for i in range(500):
        p.operator("aten::add", 10 * i, 10 * i + 5)
    p.raw('"ts": 5.000, "dur": -1', cat="kernel", name="kernel", pid=0, tid=7, args={"device": 0, "stream": 7})
    report = explain(p, tmp_path)
    assert level(report, "times_plausible") == "fail"
    assert not report.sound


# --- steps_found --------------------------------------------------------------------------------------------


def stepped(steps: int) -> Profile:
    p = launches(10 * steps)
    for k in range(steps):
        p.step(k, 10_000 * k, 10_000 * k + 9_999)
    return p


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [(5, "ok"), (4, "note"), (3, "note"), (2, "warn")],  # of four or more the last is left out: 4, 3, 3, 2 are judged
)
def test_few_steps(tmp_path: Path, steps: int, wanted: str) -> None:
    assert level(explain(stepped(steps), tmp_path, None), "steps_found") == wanted


def test_no_steps(tmp_path: Path) -> None:
    p = Profile()
    for i, name in enumerate("abcdefg"):  # nothing comes back
        p.launch(1000 * i, 1000 * i + 10, 1000 * i + 20, 1000 * i + 500, name=name)
    assert level(explain(p, tmp_path, None), "steps_found") == "warn"


@pytest.mark.parametrize("chosen", ["all", (0, 5_000)])
def test_a_window_that_was_chosen_needs_no_steps(tmp_path: Path, chosen: Any) -> None:
    assert level(explain(launches(10), tmp_path, chosen), "steps_found") is None


# --- launches_recorded --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("without", "wanted"),
    [(0, "ok"), (1, "ok"), (2, "warn"), (50, "warn"), (51, "fail")],  # of 100: above 1 % and above 50 %
)
def test_operations_without_launch(tmp_path: Path, without: int, wanted: str) -> None:
    p = launches(100 - without)
    for i in range(100 - without, 100):
        p.kernel("kernel", 1000 * i + 200, 1000 * i + 1100, p.fresh_correlation())
    report = explain(p, tmp_path)
    one = found(report, "launches_recorded")
    assert one is not None
    assert one.level == wanted
    assert one.withholds == (["idle causes"] if wanted == "fail" else [])
    assert report.sound


# --- operations_recorded ------------------------------------------------------------------------------------


def lossy(linked: int, lost: int, call: str = "cudaLaunchKernel", linked_call: str = "cudaLaunchKernel") -> Profile:
    """Launches with operations, and in their midst launches without."""
    p = launches(linked, call=linked_call)
    for i in range(lost):
        p.runtime(call, 500 + i, 501 + i)
    return p


@pytest.mark.parametrize(
    ("linked", "lost", "wanted"),
    [(100, 0, "ok"), (99, 1, "ok"), (98, 2, "warn"), (90, 10, "warn"), (89, 11, "fail")],  # above 1 % and above 10 %
)
def test_launches_without_operation(tmp_path: Path, linked: int, lost: int, wanted: str) -> None:
    report = explain(lossy(linked, lost), tmp_path)
    one = found(report, "operations_recorded")
    assert one is not None
    assert one.level == wanted
    assert one.withholds == (["ledger"] if wanted == "fail" else [])
    assert report.sound == (wanted != "fail")
    if lost:
        assert f"{lost} of 100 kernel launches" in one.detail


@pytest.mark.parametrize("call", ["cudaLaunchCooperativeKernel", "cuLaunchKernelEx", "cudaLaunchKernelExC"])
def test_launches_of_all_kinds_count(tmp_path: Path, call: str) -> None:
    assert level(explain(lossy(5, 1, call), tmp_path), "operations_recorded") == "fail"
    assert level(explain(lossy(6, 0, linked_call=call), tmp_path), "operations_recorded") == "ok"


@pytest.mark.parametrize("call", ["cudaLaunchHostFunc", "cuLaunchHostFunc", "cudaMemsetAsync", "cudaEventRecord"])
def test_calls_that_need_no_operation(tmp_path: Path, call: str) -> None:
    assert level(explain(lossy(5, 5, call), tmp_path), "operations_recorded") == "ok"


def test_launches_outside_the_linked_ones_are_edges_of_the_recording(tmp_path: Path) -> None:
    p = launches(5)
    p.runtime("cudaLaunchKernel", -50, -40)
    p.runtime("cudaLaunchKernel", 4_050, 4_060)
    assert level(explain(p, tmp_path), "operations_recorded") == "ok"


@pytest.mark.parametrize(
    ("begin", "end"),
    [("cudaStreamBeginCapture", "cudaStreamEndCapture"), ("hipStreamBeginCapture", "hipStreamEndCapture")],
)
@pytest.mark.parametrize("recorded", ["both", "begin", "end"])
def test_captured_launches_run_nothing(tmp_path: Path, begin: str, end: str, recorded: str) -> None:
    """Also from other threads of the process, and where the capture began or ended outside the recording."""

    def profile(process: int) -> Profile:
        p = lossy(10, 5)  # lost ones at 500 … 505
        p.runtime("cudaLaunchKernel", 510, 511, thread=MAIN + 1)
        if recorded != "end":
            p.runtime(begin, 450, 460, process=process)
        if recorded != "begin":
            p.runtime(end, 600, 610, process=process)
        return p

    assert level(explain(profile(MAIN), tmp_path), "operations_recorded") == "ok"
    assert level(explain(profile(MAIN + 5), tmp_path), "operations_recorded") == "fail"  # another process captured


def test_a_launch_after_the_capture_is_lost(tmp_path: Path) -> None:
    p = lossy(5, 1)
    p.runtime("cudaStreamBeginCapture", 450, 460)
    p.runtime("cudaStreamEndCapture", 470, 480)
    assert level(explain(p, tmp_path), "operations_recorded") == "fail"


@pytest.mark.parametrize("linked_is_inner", [True, False])
def test_a_launch_call_within_another(tmp_path: Path, linked_is_inner: bool) -> None:
    p = launches(5)
    outer, inner = (p.fresh_correlation(), p.fresh_correlation())
    p.runtime("cudaLaunchKernel", 2_500, 2_600, outer)
    p.runtime("cuLaunchKernel", 2_520, 2_580, inner)
    p.kernel("kernel", 10_000, 10_100, inner if linked_is_inner else outer)
    assert level(explain(p, tmp_path), "operations_recorded") == "ok"


# --- graphs_recorded ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("linked", "lost", "wanted"),
    [(20, 0, "ok"), (19, 1, "warn"), (18, 2, "fail")],  # any, and above 5 % of 20
)
def test_graph_launches_without_operations(tmp_path: Path, linked: int, lost: int, wanted: str) -> None:
    report = explain(lossy(linked, lost, "cudaGraphLaunch", "cudaGraphLaunch"), tmp_path)
    assert level(report, "graphs_recorded") == wanted
    assert level(report, "operations_recorded") == "ok"
    assert report.sound == (wanted != "fail")


def test_a_graph_launch_of_many_kernels(tmp_path: Path) -> None:
    p = launches(2)
    graph = p.runtime("cudaGraphLaunch", 100, 200)
    for i in range(50):
        p.kernel("node", 3_000 + 10 * i, 3_005 + 10 * i, graph)
    assert level(explain(p, tmp_path), "graphs_recorded") == "ok"


# --- launch_before_operation --------------------------------------------------------------------------------


def skewed(early: int, gap: int, which: Callable[[int], bool] = lambda i: True) -> Profile:
    """100 kernels, one each 1000 ns, with `gap` ns between them; some start `early` ns before their launch."""
    p = Profile()
    for i in range(100):
        launch = 1000 * i + early if which(i) else 1000 * i - 50
        p.launch(launch, launch + 5, 1000 * i, 1000 * i + 1000 - gap)
    return p


@pytest.mark.parametrize(
    ("early", "gap", "wanted"),
    [
        (0, 100, "ok"),
        (10, 100, "note"),  # 99 gaps · 10 ns of a window of 99,900: 0.99 %
        (11, 100, "warn"),  # 1.09 %
        (5000, 100, "warn"),  # 99 gaps · 100 ns: no more than all idle time can be at stake, 9.91 %
        (5000, 102, "fail"),  # 99 · 102 of 99,898: 10.1 %
    ],
)
def test_operations_before_their_launch(tmp_path: Path, early: int, gap: int, wanted: str) -> None:
    report = explain(skewed(early, gap), tmp_path)
    one = found(report, "launch_before_operation")
    assert one is not None
    assert one.level == wanted
    assert one.withholds == (["idle causes"] if wanted == "fail" else [])
    assert report.sound


def test_single_early_operations_are_not_a_clock(tmp_path: Path) -> None:
    assert level(explain(skewed(900, 102, lambda i: i == 50), tmp_path), "launch_before_operation") == "note"
    assert level(explain(skewed(900, 102, lambda i: i in (50, 60)), tmp_path), "launch_before_operation") == "fail"


def whole_microseconds(events: list[tuple[str, int, int]]) -> str:
    """A file of an era with integer times: (`launch` or a stream's number, start, end); ids in the order given."""
    ids = {"launch": 0, "stream": 0}
    out = []
    for what, start, end in events:
        kind = "launch" if what == "launch" else "stream"
        ids[kind] += 1
        cat, tid = ("cuda_runtime", 1) if kind == "launch" else ("kernel", int(what))
        args = {"correlation": ids[kind], "stream": tid}
        event = {"ph": "X", "cat": cat, "name": "cudaLaunchKernel", "pid": 0, "tid": tid, "args": args}
        out.append({**event, "ts": start, "dur": end - start})
    return json.dumps({"schemaVersion": 1, "traceEvents": out})


@pytest.mark.parametrize(("early", "wanted"), [(1, "ok"), (2, "fail")])  # µs
def test_one_microsecond_is_rounding_where_times_are_integers(tmp_path: Path, early: int, wanted: str) -> None:
    events = [e for i in range(9) for e in (("launch", 10 * i + early, 10 * i + 4), ("7", 10 * i, 10 * i + 8))]
    assert level(explain(whole_microseconds(events), tmp_path), "launch_before_operation") == wanted


def test_one_nanosecond_is_no_rounding_where_times_are_finer(tmp_path: Path) -> None:
    assert level(explain(skewed(1, 100), tmp_path), "launch_before_operation") == "note"


# --- streams_in_order ---------------------------------------------------------------------------------------


def overlapping(lap: int, stream: int = 7) -> Profile:
    """Kernels [100, 1100) and, `lap` ns before its end, another of 1000 ns: busy for 2000 - lap."""
    p = Profile()
    p.launch(0, 10, 100, 1100)
    p.launch(20, 30, 1100 - lap, 2100 - lap, stream=stream)
    return p


@pytest.mark.parametrize(
    ("lap", "stream", "wanted"),
    [
        (0, 7, "ok"),
        (19, 7, "note"),  # of 1981: 0.96 %
        (20, 7, "warn"),  # of 1980: 1.01 %
        (500, 8, "ok"),  # streams may run together
    ],
)
def test_overlap_on_a_stream(tmp_path: Path, lap: int, stream: int, wanted: str) -> None:
    assert level(explain(overlapping(lap, stream), tmp_path), "streams_in_order") == wanted


@pytest.mark.parametrize(("lap", "wanted"), [(1, "ok"), (2, "warn")])  # µs; 2 of 98
def test_overlap_by_rounding(tmp_path: Path, lap: int, wanted: str) -> None:
    events = [("launch", 0, 1), ("launch", 2, 3), ("7", 10, 60), ("7", 60 - lap, 110 - lap)]
    assert level(explain(whole_microseconds(events), tmp_path), "streams_in_order") == wanted


# --- correlations_unique ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shared", "wanted"), [(0, "ok"), (1, "warn"), (2, "fail")])  # of 10: any, and above 10 %
def test_ids_that_several_calls_carry(tmp_path: Path, shared: int, wanted: str) -> None:
    p = launches(10)
    for i in range(shared):
        p.runtime("cudaLaunchKernel", 150 + i, 151 + i, correlation=i + 1)
    one = found(explain(p, tmp_path), "correlations_unique")
    assert one is not None
    assert one.level == wanted
    assert one.withholds == (["idle causes"] if wanted == "fail" else [])


def test_a_call_within_a_call_shares_its_id_rightly(tmp_path: Path) -> None:
    p = launches(10)
    for i in range(10):
        p.runtime("cuLaunchKernel", 1000 * i + 20, 1000 * i + 80, correlation=i + 1)
    assert level(explain(p, tmp_path), "correlations_unique") == "ok"


def test_ids_that_no_operation_carries_do_not_matter(tmp_path: Path) -> None:
    p = launches(3)
    for i in range(6):
        p.runtime("cudaEventQuery", 150 + 2 * i, 151 + 2 * i, correlation=77)
    assert level(explain(p, tmp_path), "correlations_unique") == "ok"


# --- calls_nest ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("clipped", "wanted"), [(0, None), (1, "note"), (2, "warn")])  # of 1000: above 0.1 %
def test_calls_that_had_to_be_cut(tmp_path: Path, clipped: int, wanted: str | None) -> None:
    timeline = gpuwhy.load(str(launches(1000).write(tmp_path / "p.json")))
    timeline = replace(timeline, nesting=replace(timeline.nesting, clipped=clipped))
    whole = window(timeline, 0, Selection(everything=True))
    assert whole is not None
    checks = {c.check: c.level for c in trust.checks(timeline, [balance(basis(timeline), 0, whole)])}
    assert checks.get("calls_nest") == wanted


# --- rank_clocks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("later", "wanted"), [(0, "ok"), (5_000, "ok"), (5_001, "fail")])
def test_clocks_of_ranks(tmp_path: Path, later: int, wanted: str) -> None:
    """Two recordings of 10,000 ns, the second one later: above half of it they hardly met."""
    files = []
    for rank, base in enumerate((10**18, 10**18 + later)):
        p = Profile(base=base)
        p.operator("aten::mm", 0, 10_000)
        p.launch(10, 20, 100, 200)
        files.append(str(p.write(tmp_path / f"rank{rank}.json")))
    report = gpuwhy.explain(*files, window="all")
    one = found(report, "rank_clocks")
    assert one is not None
    assert one.level == wanted
    assert one.withholds == (["ranks"] if wanted == "fail" else [])
    assert report.sound
    assert found(gpuwhy.explain(files[0]), "rank_clocks") is None


# --- host_known ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("gap", "wanted"), [(30, "ok"), (31, "warn")])  # of a window of 1000: above 3 %
@pytest.mark.parametrize("operators", [False, True])
def test_idle_time_that_nothing_explains(tmp_path: Path, gap: int, wanted: str, operators: bool) -> None:
    """No launch behind the gap: `untraced`. With operators, the launching thread has nothing open in it."""
    p = Profile()
    p.launch(10, 20, 100, 1000 - gap)
    if operators:
        p.operator("aten::mm", 0, 30)
        p.launch(1000, 1010, 1000, 1100)
    else:
        p.kernel("kernel", 1000, 1100, None)
    one = found(explain(p, tmp_path), "host_known")
    assert one is not None
    assert one.level == wanted
    assert one.advice == (None if wanted == "ok" else trust.STACK_ADVICE if operators else trust.CPU_ADVICE)


# --- profiler_distortion ------------------------------------------------------------------------------------


def host_bound(idle: int, *names: str) -> Profile:
    """A window of 1000 ns [0, 1000), `idle` of which the host spends in an operator that launches."""
    p = Profile()
    p.operator("aten::mm", -100, 900)
    for name in names:
        p.annotation(name, -100, -90)
    p.launch(-80, -70, 0, 900 - idle)
    p.launch(890, 900, 900, 1000)
    return p


def test_the_profiler_slows_the_host(tmp_path: Path) -> None:
    assert level(explain(host_bound(250), tmp_path), "profiler_distortion") is None  # 25.0 %
    one = found(explain(host_bound(251), tmp_path), "profiler_distortion")
    assert one is not None
    assert one.level == "note"
    assert "loader" not in one.detail


def test_the_profiler_hides_waits_for_workers_only(tmp_path: Path) -> None:
    for loader, hides in ((WORKER_LOADER, True), (OWN_LOADER, False)):
        one = found(explain(host_bound(400, loader), tmp_path), "profiler_distortion")
        assert one is not None
        assert ("part of the wait for the loader hides" in one.detail) is hides


def test_without_host_events_nothing_was_slowed(tmp_path: Path) -> None:
    p = Profile()
    p.launch(0, 10, 20, 30)
    p.launch(80, 90, 100, 110)
    assert level(explain(p, tmp_path), "profiler_distortion") is None


# --- what follows from the checks ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "status"),
    [
        (launches(10), 0),
        (lossy(90, 10), 0),  # a warning
        (skewed(5000, 102), 0),  # withholds causes, not the ledger
        (lossy(89, 11), 3),
        (lossy(18, 2, "cudaGraphLaunch", "cudaGraphLaunch"), 3),
    ],
    ids=["healthy", "warned", "causes withheld", "launches lost", "graphs lost"],
)
def test_exit_status_3_exactly_where_the_ledger_is_withheld(tmp_path: Path, profile: Profile, status: int) -> None:
    path = profile.write(tmp_path / "p.json")
    ran = CliRunner().invoke(app, ["explain", str(path), "--all", "--json"])
    report = json.loads(ran.stdout)
    assert ran.exit_code == status
    assert any(w["what"] == "ledger" for w in report["withheld"]) == (status == 3)
    assert any("ledger" in c["withholds"] for c in report["trust"]) == (status == 3)
    assert gpuwhy.explain(str(path), window="all").sound == (status == 0)


def test_percent() -> None:
    shares = [0, 0.0001, 0.001, 0.5, 0.99999, 1]
    assert [trust.percent(s) for s in shares] == ["0.0 %", "less than 0.1 %", "0.1 %", "50.0 %", "99.9 %", "100.0 %"]


# --- recorded profiles --------------------------------------------------------------------------------------


def levels(path: Path) -> dict[str, str]:
    return {one.check: one.level for one in gpuwhy.explain(str(path)).trust}


@needs_shared
@pytest.mark.parametrize("name", ["well_fed_gpt.base", "fp32_matmul.base", "naive_attention.base", "odd_vocab.base"])
def test_healthy_and_device_bound_profiles_pass(shared_dir: Path, name: str) -> None:
    found = levels(shared_dir / f"zoo/traces/{name}.json.gz")
    assert set(found.values()) <= {"ok", "note"}
    assert "profiler_distortion" not in found


@needs_shared
def test_a_loader_with_few_workers_hides_behind_the_slowed_host(shared_dir: Path) -> None:
    report = gpuwhy.explain(str(shared_dir / "zoo/traces/loader_few_workers.base.json.gz"))
    one = found(report, "profiler_distortion")
    assert one is not None
    assert "part of the wait for the loader hides behind the slowed host" in one.detail


@needs_shared
@pytest.mark.parametrize("kind", ["decode_full", "prefilldecode_piecewise"])
def test_recordings_of_a_capture_lost_nothing(shared_dir: Path, kind: str) -> None:
    folder = shared_dir / f"traces/AMD-AGI__TraceLens/tests/traces/inference/vllm_{kind}/capture_traces"
    for path in folder.glob("*.json.gz"):
        assert levels(path)["operations_recorded"] == "ok"


@needs_shared
def test_a_clock_that_is_31_microseconds_off(shared_dir: Path) -> None:
    """224 of 225 kernels before their launches; the gaps are long, so that it matters for 4.9 % of the window."""
    folder = shared_dir / "traces/pytorch__torchrec/examples/golden_training/log/resnet18"
    found = [levels(path) for path in folder.glob("*85867*")]
    assert [one["launch_before_operation"] for one in found] == ["warn"]


def test_the_documentation_has_every_check() -> None:
    text = (Path(__file__).parents[1] / "docs" / "trust.md").read_text()
    for name, limit in trust.LIMITS.items():
        assert f"`{name}`" in text
        row = next((line for line in text.splitlines() if line.startswith(f"| `{name}` |")), "")
        for share in (limit.warn, limit.fail):
            assert not row or share is None or f"{100 * share:g} %" in row or (share == 0 and "| 0 |" in row)
