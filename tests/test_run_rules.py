"""What only a run can tell: each rule on a case that was planted for it, and on one as near as possible."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from journaling import (
    CHECKPOINT,
    COLLECTION,
    LOADER,
    LOCK,
    MS,
    OPTIMIZER,
    OTHER,
    PID,
    TID,
    Process,
    at,
    journal_of,
    steps_in,
    write_run,
)
from test_gpus import Nvml, h200, running, used

from gpuwhy.reports.findings_model import FindingInfo, Interval
from gpuwhy.run import watch
from gpuwhy.run.analyse import explain_run
from gpuwhy.run.counters import GpuSummary, Level, OtherProcess, ProcessSummary, Summary, ThreadSummary
from gpuwhy.run.rules import RULES, findings
from gpuwhy.run.rules.pauses import checkpoints, collections
from gpuwhy.run.rules.shared import shared_device
from gpuwhy.run.rules.threads import busy_thread
from gpuwhy.run.rules.throttling import throttling
from gpuwhy.run.rules.waiting import input_wait
from gpuwhy.run.rules.workers import crowded_cores, too_many_workers
from gpuwhy.run.seen import Seen

STEP = 100
"""ms. Twenty steps, the first of them start-up: 19 that are judged, of 1,900 ms."""
COUNT = 20
Rule = Callable[[Seen], FindingInfo | None]


def stepping(count: int = COUNT) -> Process:
    return Process().anchored(OPTIMIZER).every(STEP, count)


def seen(folder: Path, process: Process, summary: Summary | None = None) -> Seen:
    steps = steps_in(folder, process)
    return Seen(journal_of(folder, process), steps, summary)


def gain(finding: FindingInfo | None) -> tuple[float, float, float]:
    """Time after the one mend over before: at best, expected, at worst."""
    assert finding is not None
    (mend,) = finding.mends
    after = mend.after_over_before
    return after.low, after.mid, after.high


def near(*values: float) -> Any:
    return pytest.approx(values, abs=1e-9)


def summary_of(
    *processes: ProcessSummary, cores: float | None = 4, gpus: list[GpuSummary] | None = None, **of: Any
) -> Summary:
    return Summary(seconds=2, samples=5, cores=cores, gpus=gpus or [], processes=list(processes), **of)


def process_of(pid: int, **of: Any) -> ProcessSummary:
    usual: dict[str, Any] = dict.fromkeys(("command", "started", "cores", "wait", "rss_peak", "threads"))
    return ProcessSummary(**{"pid": pid, "parent": 1, "samples": 5, "children": 0, **usual, **of})


def gpu_of(**of: Any) -> GpuSummary:
    usual = {field: None for field in GpuSummary.__struct_fields__ if field not in of}
    return GpuSummary(**{**usual, "samples": 5, **of})


def level(mean: float) -> Level:
    return Level(mean=mean, p10=mean, p90=mean)


# --- Waiting for the data loader ---------------------------------------------------------------------------------


def loading(ms: float, **of: Any) -> Process:
    process = stepping()
    for step in range(COUNT):
        process.record(LOADER, STEP * step + 1, STEP * step + 1 + ms, value=8, more=-1, **of)
    return process


def test_waiting_for_the_loader_costs_what_the_loop_waits(tmp_path: Path) -> None:
    """20 of 100 ms; at worst half of that is hidden behind the device."""
    finding = input_wait(seen(tmp_path, loading(20)))
    assert gain(finding) == near(0.8, 0.8, 0.9)
    assert finding is not None
    assert finding.cause == "input"
    assert finding.mends[0].step_after_ns.mid == 80 * MS
    assert finding.evidence == ["20.0 of 100 ms a step pass in the loader's __next__"]


def test_short_waits_waits_beside_the_loop_and_waits_of_a_host_that_is_ahead_are_none(tmp_path: Path) -> None:
    assert input_wait(seen(tmp_path / "short", loading(2.9))) is None
    assert input_wait(seen(tmp_path / "enough", loading(3.1))) is not None
    assert input_wait(seen(tmp_path / "thread", loading(20, thread=OTHER))) is None
    ahead, pace = loading(20), loading(20)
    for step in range(COUNT):
        ahead.device(step, 110)
        pace.device(step, 100)
    assert input_wait(seen(tmp_path / "ahead", ahead)) is None
    assert gain(input_wait(seen(tmp_path / "pace", pace))) == near(0.8, 0.8, 0.9)


@pytest.mark.parametrize(
    ("workers", "title", "told"),
    [
        ([0], "the loop makes its batches itself", "the loader has no worker processes"),
        ([4, 4], "the loop waits for its data loader", "the loader has 4 worker processes"),
        ([4, 0], "the loop waits for its data loader", None),
        ([None], "the loop waits for its data loader", None),
    ],
    ids=str,
)
def test_workers_are_told_where_all_loaders_have_as_many(
    workers: list[int | None], title: str, told: str | None, tmp_path: Path
) -> None:
    process = loading(20)
    for number in workers:
        process.note("loader", 1, workers=number)
    finding = input_wait(seen(tmp_path, process))
    assert finding is not None
    assert finding.title == title
    assert finding.evidence[1:] == ([told] if told else [])


def test_a_loop_that_does_nothing_but_wait_keeps_a_step(tmp_path: Path) -> None:
    low, _, _ = gain(input_wait(seen(tmp_path, loading(99.9))))
    assert low > 0


# --- Pauses --------------------------------------------------------------------------------------------------------

PAUSES: dict[str, tuple[int, Rule]] = {
    "garbage_collection": (COLLECTION, collections),
    "checkpoint": (CHECKPOINT, checkpoints),
}


def paused(kind: int, steps: dict[int, float], longer: float = 1.0) -> Process:
    """A pause of so many ms in some steps, which take `longer` times that much longer than the others' 100 ms."""
    edges = [0.0]
    process = Process().anchored(OPTIMIZER)
    for step in range(COUNT):
        pause = steps.get(step, 0)
        if pause:
            process.record(kind, edges[-1] + 1, edges[-1] + 1 + pause)
        edges.append(edges[-1] + STEP + longer * pause)
    return process.stepped(*edges)


@pytest.mark.parametrize("cause", PAUSES)
def test_pauses_in_some_steps_cost_what_these_take_longer(cause: str, tmp_path: Path) -> None:
    """Four pauses of 50 ms: of 19 steps of 100 ms, and 200 ms more. A quarter of that may be off."""
    kind, rule = PAUSES[cause]
    finding = rule(seen(tmp_path, paused(kind, dict.fromkeys((5, 8, 11, 14), 50))))
    own = 200 / 2_100
    assert gain(finding) == near(1 - own, 1 - own, 1 - 0.75 * own)
    assert finding is not None
    assert finding.cause == cause
    assert "4 " in finding.evidence[0]
    assert "the longest of 50 ms" in finding.evidence[0]


@pytest.mark.parametrize("cause", PAUSES)
def test_pauses_that_are_half_hidden_behind_the_device_cost_half(cause: str, tmp_path: Path) -> None:
    kind, rule = PAUSES[cause]
    own, saved = 200 / 2_000, 100 / 2_000
    found = rule(seen(tmp_path, paused(kind, dict.fromkeys((5, 8, 11, 14), 50), longer=0.5)))
    assert gain(found) == near(1 - own, 1 - saved, 1 - 0.75 * saved)


@pytest.mark.parametrize("cause", PAUSES)
def test_pauses_that_make_no_step_longer_are_free(cause: str, tmp_path: Path) -> None:
    kind, rule = PAUSES[cause]
    assert rule(seen(tmp_path, paused(kind, dict.fromkeys((5, 8, 11, 14), 50), longer=0))) is None


@pytest.mark.parametrize("cause", PAUSES)
def test_pauses_in_nearly_every_step_cost_what_they_take(cause: str, tmp_path: Path) -> None:
    """Four of 19 steps are without, one too few to compare with: 15 × 10 ms, of 2,050 ms in all."""
    kind, rule = PAUSES[cause]
    calm = (4, 8, 12, 16)
    process = paused(kind, {step: 10 for step in range(1, COUNT) if step not in calm})
    own = 150 / 2_050
    assert gain(rule(seen(tmp_path, process))) == near(1 - own, 1 - own, 1 - 0.75 * own)
    fifth = paused(kind, {step: 10 for step in range(1, COUNT) if step not in (*calm, 18)}, longer=0)
    assert rule(seen(tmp_path / "one more", fifth)) is None


@pytest.mark.parametrize("cause", PAUSES)
def test_pauses_of_under_a_thirtieth_or_before_steady_steps_are_none(cause: str, tmp_path: Path) -> None:
    """Steps 5 and 8 have 55 and 60 ms together: 2.8 and 3.06 % of the time with them."""
    kind, rule = PAUSES[cause]
    assert rule(seen(tmp_path / "short", paused(kind, {5: 30, 8: 25}))) is None
    assert rule(seen(tmp_path / "enough", paused(kind, {5: 30, 8: 30}))) is not None
    assert rule(seen(tmp_path / "start", paused(kind, {0: 500}))) is None
    assert rule(seen(tmp_path / "after", stepping().record(kind, 2_100, 2_900))) is None
    assert rule(seen(tmp_path / "none", stepping())) is None


def test_saving_beside_the_loop_is_free_and_collecting_is_not(tmp_path: Path) -> None:
    """Whoever collects garbage holds Python's lock."""
    process = paused(CHECKPOINT, {})
    for step in (5, 8, 11, 14):
        for kind in (CHECKPOINT, COLLECTION):
            process.record(kind, STEP * step + 1, STEP * step + 51, thread=OTHER)
    assert checkpoints(seen(tmp_path, process)) is None
    other = paused(COLLECTION, dict.fromkeys((5, 8, 11, 14), 50))
    other.records = other.records.replace((0x1111).to_bytes(4, "little"), OTHER.to_bytes(4, "little"))
    assert collections(seen(tmp_path, other)) is not None


def test_a_save_within_a_save_counts_once(tmp_path: Path) -> None:
    process = paused(CHECKPOINT, dict.fromkeys(range(COUNT), 50))
    for step in range(COUNT):
        process.record(CHECKPOINT, 150 * step + 11, 150 * step + 41)
    assert gain(checkpoints(seen(tmp_path, process))) == near(2 / 3, 2 / 3, 0.75)


# --- A thread that holds Python's lock -----------------------------------------------------------------------------


def contended(
    late: int = 10, times: int = 10, others: float | None = 0.6, own: float | None = 0.3, known: bool = True
) -> tuple[Process, Summary]:
    """Of `times` times the lock came back after 5 ms so often; two threads use `others` of a core in all."""
    process = stepping()
    for number in range(times):
        start = 150 + 100 * number
        process.record(LOCK, start, start + (5 if number < late else 0.01))
    if known:
        process.note("thread", 2, tid=8, name="metrics").note("thread", 2, tid=9, name="heartbeat")
    threads = [
        ThreadSummary(tid=TID, name="python", cores=own, wait=0),
        ThreadSummary(tid=8, name="python", cores=None if others is None else others - 0.05, wait=0),
        ThreadSummary(tid=9, name="python", cores=0.05, wait=0),
        ThreadSummary(tid=10, name="cuda-EvtHandlr", cores=0.9, wait=0),
    ]
    return process, summary_of(process_of(PID, threads=threads))


def test_a_busy_python_thread_costs_the_lock_that_it_holds(tmp_path: Path) -> None:
    """0.6 of a core is what the loop can win at most: 0.4 is left, and never under what it computes itself, 0.3."""
    finding = busy_thread(seen(tmp_path, *contended()))
    assert gain(finding) == near(0.24, 0.4, 0.7)
    assert finding is not None
    assert finding.cause == "host_contention"
    assert "'metrics'" in finding.title
    assert "10 times" in finding.evidence[1]
    assert "100 %" in finding.evidence[1]
    assert "5.0 ms" in finding.evidence[1]
    computing = busy_thread(seen(tmp_path / "computing", *contended(own=0.7)))
    assert gain(computing) == near(0.56, 0.7, 0.85)


CALM: dict[str, dict[str, Any]] = {
    "the lock comes back at once more often": {"late": 2},
    "it was looked at once": {"late": 1, "times": 1},
    "the other threads are idle": {"others": 0.09},
    "it is not known what they do": {"others": None},
    "they run no Python": {"known": False},
    "it is not known what the loop's does": {"own": None},
    "the loop computes all the time": {"own": 1.0},
}


@pytest.mark.parametrize("name", CALM)
def test_a_thread_that_is_in_nobodys_way_is_not_named(name: str, tmp_path: Path) -> None:
    assert busy_thread(seen(tmp_path, *contended(**CALM[name]))) is None


def test_thresholds_of_a_busy_thread_lie_where_they_are_said_to(tmp_path: Path) -> None:
    assert busy_thread(seen(tmp_path / "late", *contended(late=3))) is not None
    assert gain(busy_thread(seen(tmp_path / "busy", *contended(others=0.1, own=0.5)))) == near(0.4, 0.9, 0.95)


# --- More workers than cores ---------------------------------------------------------------------------------------


def crowded(
    workers: int = 8,
    at_once: int | None = None,
    cores: float | None = 4,
    used: float = 4.0,
    waits: float | None = 0.2,
    theirs: float = 0.4,
    share: float = 0.9,
    parent: int = PID,
) -> Summary:
    """So many workers have existed, `at_once` at one time, and have `share` of the cores in use."""
    loop = process_of(PID, cores=(1 - share) * used, wait=waits, children=workers if at_once is None else at_once)
    each = share * used / workers if workers else 0
    return summary_of(
        loop, *(process_of(100 + n, parent=parent, cores=each, wait=theirs) for n in range(workers)), cores=cores
    )


def test_more_workers_than_cores_cost_what_the_loop_waits_for_one(tmp_path: Path) -> None:
    """The loop waits 0.2 of the time; at best its batches come sooner, too, by half of what the workers wait."""
    finding = too_many_workers(seen(tmp_path, stepping(), crowded()))
    assert gain(finding) == near(0.6, 0.8, 1.0)
    assert finding is not None
    assert finding.evidence[0] == "8 workers and the loop share 4 cores, of which 4.0 are in use"
    assert finding.evidence[1].endswith("20 % of the time, each worker 40 %")
    assert finding.mends[0].code == "DataLoader(..., num_workers=3)"


def test_the_loops_own_thread_counts_where_it_is_known(tmp_path: Path) -> None:
    summary = crowded()
    thread = ThreadSummary(tid=TID, name="python", cores=0.4, wait=0.3)
    first = msgspec.structs.replace(summary.processes[0], threads=[thread])
    summary = msgspec.structs.replace(summary, processes=[first, *summary.processes[1:]])
    assert gain(too_many_workers(seen(tmp_path, stepping(), summary)))[1] == pytest.approx(0.7)


ENOUGH: dict[str, dict[str, Any]] = {
    "as many as cores with the loop": {"workers": 3},
    "there are more cores": {"cores": 9, "used": 9},
    "cores are free": {"used": 3.3},
    "nobody waits": {"waits": 0.04, "theirs": 0.05},
    "the loop does not wait": {"waits": 0.02},
    "it is not known whether it waits": {"waits": None},
    "it is not known how many cores there are": {"cores": None},
    "they are somebody else's": {"parent": 7},
    "there are none": {"workers": 0},
    "each epoch starts three anew": {"workers": 9, "at_once": 3},
    "they are idle, and others fill the cores": {"share": 0.4},
}


@pytest.mark.parametrize("name", ENOUGH)
def test_workers_that_have_their_cores_are_not_named(name: str, tmp_path: Path) -> None:
    assert too_many_workers(seen(tmp_path, stepping(), crowded(**ENOUGH[name]))) is None


def test_one_worker_more_is_one_too_many(tmp_path: Path) -> None:
    assert too_many_workers(seen(tmp_path, stepping(), crowded(workers=4))) is not None
    loop_that_never_runs = too_many_workers(seen(tmp_path / "never", stepping(), crowded(waits=0.99)))
    assert gain(loop_that_never_runs) == near(0.05, 0.05, 1.0)


# --- Through the driver: a shared GPU, and one that is held back -----------------------------------------------------

OWN = os.getpid()
"""As far as the counters are concerned, the tests are the program."""


def watched(
    folder: Path, monkeypatch: pytest.MonkeyPatch, samples: int, *, uuid: str | None = "1234", **gpu: Any
) -> list[FindingInfo]:
    """Findings of a run of 100 ms a step whose GPU says this; what is a function is told the number of the sample."""
    now = SimpleNamespace(number=0)

    def telling(answer: Any) -> Any:
        return (lambda *_: answer(now.number)) if callable(answer) else answer

    nvml = Nvml(h200(**{name: telling(answer) for name, answer in gpu.items()}))
    monkeypatch.setattr(watch, "time", SimpleNamespace(monotonic_ns=lambda: at(500 * now.number)))
    with nvml.open() as gpus, watch.Watch(folder / "counters.jsonl", OWN, gpus) as recording:
        for number in range(samples):
            now.number = number
            recording.sample()
            nvml.pass_time(0.5)
    process = Process(pid=OWN).anchored(OPTIMIZER).every(STEP, 5 * samples)
    if uuid:
        process.note("device", 1, index=0, uuid=uuid)
    report = explain_run(write_run(folder, process, wall=500 * samples)).report
    assert (folder / "counters.jsonl").stat().st_size > 0
    return report.findings


HOT = {
    "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=80, memory=30),
    "nvmlDeviceGetClockInfo": 1_485,
    "nvmlDeviceGetMaxClockInfo": 1_980,
    "nvmlDeviceGetCurrentClocksEventReasons": 0x20,
}
"""80 % of the time busy, at three quarters of its clock, held down by heat."""


def test_a_hot_gpu_could_be_as_much_faster_as_its_clock_is_slower_while_it_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0.8 × (1 − 0.75) = 0.2 at best, and half of that expected."""
    (finding,) = watched(tmp_path, monkeypatch, 20, **HOT)
    assert finding.cause == "throttling"
    assert gain(finding) == near(0.8, 0.9, 1.0)
    assert finding.evidence[0].startswith("sw_thermal in 100 % of the samples; its clock was at 75 %")


def test_a_gpu_that_is_hot_half_of_the_time_loses_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each second sample: of the 38 within the steady steps 19."""
    reasons = {"nvmlDeviceGetCurrentClocksEventReasons": lambda number: 0x24 if number % 2 else 0x4}
    (finding,) = watched(tmp_path, monkeypatch, 41, **{**HOT, **reasons})
    low, mid, high = gain(finding)
    assert (low, high) == near(0.8, 1.0)
    assert mid == pytest.approx(0.95, abs=0.002)


COOL: dict[str, dict[str, Any]] = {
    "only the power cap holds it down": {"nvmlDeviceGetCurrentClocksEventReasons": 0x4},
    "it is idle": {"nvmlDeviceGetCurrentClocksEventReasons": 0x1},
    "it was hot once": {"nvmlDeviceGetCurrentClocksEventReasons": lambda number: 0x20 if number == 10 else 0},
    "its clock is not lower for it": {"nvmlDeviceGetClockInfo": 1_970},
    "its clock is not known": {"nvmlDeviceGetMaxClockInfo": RuntimeError()},
    "it hardly works": {"nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=10, memory=1)},
    "the program uses another": {"uuid": "5678"},
    "it is not known which the program uses": {"uuid": None},
}


@pytest.mark.parametrize("name", COOL)
def test_a_gpu_that_is_not_held_back_by_heat_is_not_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert watched(tmp_path, monkeypatch, 20, **{**HOT, **COOL[name]}) == []


def with_another(percent: int, pid: int = 2**22 + 5) -> dict[str, Any]:
    """Another process keeps the GPU busy for so much of the time, beside the program; a pid that Linux never gives."""
    return {
        "nvmlDeviceGetCurrentClocksEventReasons": 0,
        "nvmlDeviceGetComputeRunningProcesses": [running(OWN, 1 << 30), running(pid, 2 << 30)],
        "nvmlDeviceGetProcessUtilization": lambda n: [used(OWN, n + 1, 40), used(pid, n + 1, percent)],
    }


def test_a_shared_gpu_could_be_as_much_faster_as_the_others_use_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They use 0.3 of the time: at best that is won, half of it is expected."""
    (finding,) = watched(tmp_path, monkeypatch, 20, **with_another(30))
    assert finding.cause == "shared_device"
    assert gain(finding) == near(0.7, 0.85, 1.0)
    assert f"process {2**22 + 5} (30 % of the time" in finding.evidence[0]


def test_a_process_that_hardly_computes_and_the_programs_own_are_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert watched(tmp_path, monkeypatch, 20, **with_another(4)) == []
    (tmp_path / "own").mkdir()
    assert watched(tmp_path / "own", monkeypatch, 20, **with_another(90, pid=OWN)) == []


# --- Cores that others take ----------------------------------------------------------------------------------------


def elsewhere(used: float = 1.0, cores: float | None = 4, waits: float | None = 0.2) -> Summary:
    """The loop waits for a core this part of the time, the program having so many of its cores in use."""
    thread = ThreadSummary(tid=TID, name="python", cores=used, wait=waits)
    process = msgspec.structs.replace(process_of(PID, cores=used, wait=waits), threads=[thread])
    return summary_of(process, cores=cores)


def test_a_loop_that_waits_for_cores_that_others_take_is_told_so(tmp_path: Path) -> None:
    finding = crowded_cores(seen(tmp_path, stepping(), elsewhere()))
    assert gain(finding) == near(0.8, 0.9, 1.0)
    assert finding is not None
    assert "20 % of the time, though the program uses 1.0 of the 4 cores" in finding.evidence[0]


@pytest.mark.parametrize("calm", [{"waits": 0.09}, {"waits": None}, {"cores": None}, {"used": 3.4}])
def test_a_loop_that_has_its_core_or_takes_them_all_itself_is_not(calm: dict[str, Any], tmp_path: Path) -> None:
    assert crowded_cores(seen(tmp_path, stepping(), elsewhere(**calm))) is None


# --- All rules -------------------------------------------------------------------------------------------------------

WITH_COUNTERS: tuple[Rule, ...] = (busy_thread, too_many_workers, crowded_cores, shared_device, throttling)


@pytest.mark.parametrize("rule", WITH_COUNTERS, ids=lambda rule: rule.__name__)
def test_without_counters_a_rule_on_them_is_silent(rule: Rule, tmp_path: Path) -> None:
    process, _ = contended()
    assert rule(seen(tmp_path, process)) is None
    assert rule(seen(tmp_path, process, summary_of(cores=None))) is None
    assert rule(seen(tmp_path, process, summary_of(process_of(PID), gpus=[gpu_of(), gpu_of()]))) is None


def test_without_steady_steps_nothing_is_found(tmp_path: Path) -> None:
    process = loading(50)
    process.record(10, 0, 1, value=1, thread=0).record(10, STEP * COUNT, STEP * COUNT, value=2, thread=0)
    found = seen(tmp_path, process, crowded())
    assert not found.steps.steady.any()
    assert findings(found) == []


def test_what_brings_most_comes_first(tmp_path: Path) -> None:
    process, summary = contended()
    for step in range(COUNT):
        process.record(LOADER, STEP * step + 11, STEP * step + 31, value=8, more=-1)
    assert [finding.cause for finding in findings(seen(tmp_path, process, summary))] == ["host_contention", "input"]


PART = st.one_of(st.none(), st.sampled_from([0.0, 1e-9, 0.05, 0.5, 0.96, 1.0, 1.3, 1e18]), st.floats(0, 1.2))
LEVEL = st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0, 1.1, 1e18]).map(level))
GPUS = st.lists(
    st.builds(
        gpu_of,
        utilization=LEVEL,
        sm_clock=PART,
        throttled=st.one_of(
            st.none(), st.dictionaries(st.sampled_from(["sw_thermal", "hw_slowdown", "power_cap"]), st.floats(0, 1))
        ),
        others=st.one_of(
            st.none(), st.lists(st.builds(OtherProcess, pid=st.just(7), memory_peak=st.just(9), sm=PART), max_size=3)
        ),
    ),
    max_size=2,
)
THREADS = st.one_of(
    st.none(),
    st.lists(st.builds(ThreadSummary, tid=st.sampled_from([TID, 8, 9]), name=st.none(), cores=PART, wait=PART)),
)
PROCESSES = st.lists(
    st.builds(
        lambda pid, parent, children, cores, wait, threads: process_of(
            pid, parent=parent, children=children, cores=cores, wait=wait, threads=threads
        ),
        st.sampled_from([PID, 5, 6]),
        st.sampled_from([PID, 1]),
        st.integers(0, 9),
        PART,
        PART,
        THREADS,
    ),
    max_size=6,
)


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    gpus=GPUS, processes=PROCESSES, cores=PART, pauses=st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 900)))
)
def test_gains_lie_in_their_interval_and_leave_time(
    gpus: list[GpuSummary],
    processes: list[ProcessSummary],
    cores: float | None,
    pauses: list[tuple[int, int]],
    tmp_path: Path,
) -> None:
    process, _ = contended()
    for number, (start, length) in enumerate(pauses):
        process.record((LOADER, CHECKPOINT, COLLECTION)[number % 3], start, start + length, value=8, more=-1)
    summary = summary_of(*processes, cores=cores, gpus=gpus)
    for finding in findings(seen(tmp_path, process, summary)):
        (mend,) = finding.mends
        after, step = mend.after_over_before, mend.step_after_ns
        assert 0 < after.low <= after.mid <= after.high <= 1
        assert after.mid <= 0.97
        assert 0 < step.low <= step.mid <= step.high <= 101 * MS
        assert all(isinstance(text, str) for text in finding.evidence)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    lengths=st.lists(st.integers(0, 50), min_size=1, max_size=20),
    spans=st.lists(st.tuples(st.integers(-5, 400), st.integers(0, 60)), max_size=8),
)
def test_a_saving_is_part_of_the_time_of_steady_steps(
    lengths: list[int], spans: list[tuple[int, int]], tmp_path: Path
) -> None:
    """Both ways of telling it, against sets of milliseconds."""
    edges = [sum(lengths[:number]) for number in range(len(lengths) + 1)]
    found = seen(tmp_path, Process().anchored(OPTIMIZER).stepped(*edges))
    taken = {ms for start, length in spans for ms in range(start, start + length)}
    rows = np.array([(at(start), at(start + length)) for start, length in spans], np.int64).reshape(-1, 2)
    told = found.saving(rows)
    steady = [step for step, is_steady in enumerate(found.steps.steady) if is_steady]
    within = {step: len(taken & set(range(edges[step], edges[step + 1]))) for step in steady}
    if not any(within.values()):
        assert told is None
        return
    assert told is not None
    after, own = told
    total = sum(max(lengths[step] * MS, 1) for step in steady)
    assert own == pytest.approx(min(MS * sum(within.values()) / total, 0.99))
    calm = [lengths[step] for step in steady if not within[step]]
    if len(calm) < 5:
        assert after == Interval(low=1 - own, mid=1 - own, high=1 - 0.75 * own)
    else:
        longer = sum(lengths[step] - float(np.median(calm)) for step in steady if within[step]) * MS / total
        assert after.mid == pytest.approx(1 - min(max(longer, 0), own))
        assert after.low <= after.mid <= after.high


def test_every_rule_has_its_tests() -> None:
    assert set(RULES) == {input_wait, collections, checkpoints, *WITH_COUNTERS}
