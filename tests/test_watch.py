"""Recordings of counters: written while a real program runs, read whatever is in them, and summed up by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuwhy.run import watch as module
from gpuwhy.run.counters import Level, OtherProcess, Summary, ThreadSummary, summarize
from gpuwhy.run.gpus import GpuProcess, Gpus, GpuSample
from gpuwhy.run.processes import ProcessSample, ThreadSample
from gpuwhy.run.watch import Sample, Watch, read

S = 1_000_000_000
ANY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


class TwoGpus(Gpus):
    """What a driver with two GPUs would say."""

    def __init__(self) -> None:
        super().__init__(None, [])

    def sample(self) -> list[GpuSample]:
        return [GpuSample(index=0, uuid="GPU-0", throttle=[]), GpuSample(index=1, processes=[GpuProcess(7, 5)])]


def test_a_program_is_recorded_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "counters.jsonl"
    before = time.monotonic_ns()
    with Watch(path, os.getpid(), TwoGpus()) as watch:
        watch.sample()
        watch.sample({os.getpid()})
    assert watch.problem is None
    (first, second), skipped = read(path)
    assert skipped == 0
    assert before <= first.t <= second.t <= time.monotonic_ns()
    assert first.gpus == TwoGpus().sample()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0]["gpus"] == [  # what is not known is not written, what is known to be empty is
        {"index": 0, "uuid": "GPU-0", "throttle": []},
        {"index": 1, "processes": [{"pid": 7, "memory": 5}]},
    ]
    if sys.platform == "linux":
        own = next(process for process in second.processes if process.pid == os.getpid())
        assert own.parent == os.getppid()
        assert os.getpid() in {thread.tid for thread in own.threads or []}
        assert all(process.threads is None for process in first.processes)
        assert second.cores is not None
        assert 0 < second.cores <= (os.cpu_count() or 1)


def test_without_gpus_processes_are_recorded(tmp_path: Path) -> None:
    with Watch(tmp_path / "counters.jsonl", os.getpid(), None) as watch:
        watch.sample()
    ((found,), _) = read(tmp_path / "counters.jsonl")
    assert found.gpus == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_told_once_and_never_raised() -> None:
    with Watch("/dev/full", os.getpid(), None) as watch:
        assert watch.problem is None
        watch.sample()
        problem = watch.problem
        watch.sample()
    assert problem == watch.problem == "counters cannot be written to /dev/full: No space left on device"


def test_a_file_that_cannot_be_made_is_told_and_never_raised(tmp_path: Path) -> None:
    with Watch(tmp_path / "none" / "counters.jsonl", os.getpid(), None) as watch:
        watch.sample()
    assert watch.problem is not None
    assert "No such file" in watch.problem
    assert read(tmp_path / "none" / "counters.jsonl") == ([], 0)


@pytest.mark.skipif(sys.platform == "win32", reason="limits are POSIX's")
def test_a_line_that_is_cut_off_takes_no_other_along(tmp_path: Path) -> None:
    """The disk is full in the middle of the second line, and then no longer."""
    path = tmp_path / "counters.jsonl"
    text = f"""
import os, resource
from gpuwhy.run.watch import Watch
watch = Watch({str(path)!r}, os.getpid(), None)
watch.sample()
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize({str(path)!r}) + 20, hard))
watch.sample()
watch.sample()
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
watch.sample()
print(watch.problem)
"""
    told = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
    assert "no room for all of a line" in told
    samples, skipped = read(path)
    assert (len(samples), skipped) == (2, 1)


def test_a_recording_that_goes_on_in_a_cut_file_loses_only_what_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "counters.jsonl"
    path.write_bytes(b'{"t":5}\n{"t":6,"gp')
    with Watch(path, os.getpid(), None) as watch:
        watch.sample()
    samples, skipped = read(path)
    assert (len(samples), skipped) == (2, 1)


def test_a_file_never_grows_beyond_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST_FILE", 3_000)
    with Watch(tmp_path / "counters.jsonl", os.getpid(), TwoGpus()) as watch:
        for _ in range(50):
            watch.sample()
    assert watch.problem is not None
    assert "no more is recorded" in watch.problem
    assert 0 < (tmp_path / "counters.jsonl").stat().st_size <= 3_000


def test_lines_that_are_no_samples_are_skipped_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_LINE", 1_000)
    path = tmp_path / "counters.jsonl"
    lines = [
        b'{"t":20,"unknown":[1,2]}',
        b"",
        b"garbage \xff\x00",
        b'{"t":-1}',
        b'{"t":"1"}',
        b'{"t":1' + b"0" * 400 + b"}",
        b'{"t":1,"gpus":[{"power_w":1e400}]}',
        b'{"t":1,"gpus":[{"utilization":NaN}]}',
        b'{"t":1,"processes":[{}]}',
        b'{"t":1,"x":' + b"[" * 900 + b"}",
        b'{"t":1,"x":"' + b"y" * 5_000 + b'"}',
        b"[]",
        b'{"t":10}',
        b'{"t":30,"cores":4.0',
    ]
    path.write_bytes(b"\n".join(lines))
    assert read(path) == ([Sample(10), Sample(20)], 11)


def test_nesting_without_end_is_no_sample(tmp_path: Path) -> None:
    path = tmp_path / "counters.jsonl"
    path.write_bytes(b'{"t":1,"x":' + b"[" * 1_000_000 + b'\n{"t":2}\n')
    assert read(path) == ([Sample(2)], 1)


WHOLE = st.none() | st.integers(0, 1 << 62)
AMOUNT = st.none() | st.floats(0, 1e18)
GPU = st.builds(
    GpuSample,
    index=WHOLE,
    uuid=st.sampled_from([None, "GPU-0", "GPU-1"]),
    utilization=AMOUNT,
    memory_used=WHOLE,
    sm_clock_mhz=AMOUNT,
    sm_clock_max_mhz=AMOUNT,
    throttle=st.none() | st.lists(st.text(max_size=3), max_size=2),
    sm=AMOUNT,
    processes=st.none() | st.lists(st.builds(GpuProcess, st.integers(1, 4), WHOLE, AMOUNT), max_size=3),
)
PROCESS = st.builds(
    ProcessSample,
    pid=st.integers(1, 4),
    parent=st.none() | st.integers(0, 4),
    started=st.none() | st.integers(0, 2),
    rss=WHOLE,
    cpu_s=AMOUNT,
    wait_s=AMOUNT,
    threads=st.none() | st.lists(st.builds(ThreadSample, st.integers(1, 3), st.none(), AMOUNT, AMOUNT), max_size=3),
)
SAMPLE = st.builds(
    Sample,
    t=st.integers(0, 20) | st.integers(0, 1 << 62),
    gpus=st.lists(GPU, max_size=3),
    processes=st.lists(PROCESS, max_size=3),
    cores=AMOUNT,
    host_pids=st.none() | st.booleans(),
)


@ANY
@given(st.binary(max_size=300))
def test_no_bytes_do_harm(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "counters.jsonl"
    path.write_bytes(content)
    samples, skipped = read(path)
    assert len(samples) + skipped <= content.count(b"\n") + 1


@ANY
@given(st.lists(SAMPLE, max_size=6), st.data())
def test_what_was_recorded_is_read_and_damage_costs_only_its_line(
    tmp_path: Path, samples: list[Sample], data: st.DataObject
) -> None:
    path = tmp_path / "counters.jsonl"
    lines = [msgspec.json.encode(sample) for sample in samples]
    path.write_bytes(b"\n".join(lines))
    in_order = sorted(samples, key=lambda sample: sample.t)
    assert read(path) == (in_order, 0)
    if samples:
        place = data.draw(st.integers(0, len(lines) - 1))
        end = data.draw(st.integers(1, len(lines[place]) - 1))
        lines[place] = lines[place][:end]
        path.write_bytes(b"\n".join(lines))
        found, skipped = read(path)
        assert skipped == 1
        assert len(found) == len(samples) - 1


@ANY
@given(st.lists(SAMPLE, max_size=6), st.integers(0, 30), st.integers(0, 1 << 62))
def test_no_recording_makes_a_summary_fail(samples: list[Sample], start: int, end: int) -> None:
    in_order = sorted(samples, key=lambda sample: sample.t)
    found = summarize(in_order, start, end)
    inside = {sample.t for sample in samples if start <= sample.t < end}
    assert (found is not None) == (len(inside) > 1)
    if found is not None:
        json.dumps(msgspec.to_builtins(found), allow_nan=False)
        assert all(gpu.utilization is None or gpu.samples > 1 for gpu in found.gpus)


def of_gpu(*gpus: tuple[float, GpuSample | None], own: int = 1) -> list[Sample]:
    """Samples at these seconds of one GPU and of a program with one process."""
    return [Sample(round(t * S), [gpu] if gpu else [], [ProcessSample(own)], host_pids=True) for t, gpu in gpus]


def whole(samples: list[Sample], start: float = 0, end: float = 1_000) -> Summary:
    found = summarize(samples, round(start * S), round(end * S))
    assert found is not None
    return found


def test_means_are_weighed_by_the_time_that_a_sample_tells_of() -> None:
    values = [0.9, 0.2, 0.8, 0.4]
    samples = of_gpu(*((t, GpuSample(index=0, sm=sm)) for t, sm in zip((0, 1, 2, 5), values, strict=True)))
    # 0.2 for a second, 0.8 for one, 0.4 for three; of the time before the first sample nothing is asked
    (gpu,) = whole(samples).gpus
    assert gpu.sm is not None
    assert gpu.sm.mean == pytest.approx((0.2 + 0.8 + 3 * 0.4) / 5)
    assert gpu.samples == 4
    # From 1.5 s on: half a second of the 0.8.
    (gpu,) = whole(samples, 1.5).gpus
    assert gpu.sm is not None
    assert gpu.sm.mean == pytest.approx((0.5 * 0.8 + 3 * 0.4) / 3.5)


def test_tenths_of_the_samples() -> None:
    # Eleven values besides the first: a tenth of the way between them is exactly the second lowest.
    order = [0.5, 0.0, 0.9, 0.1, 1.0, 0.3, 0.7, 0.2, 0.8, 0.6, 0.4, 0.5]
    samples = of_gpu(*((t, GpuSample(index=0, utilization=value)) for t, value in enumerate(order)))
    (gpu,) = whole(samples).gpus
    assert gpu.utilization == Level(mean=pytest.approx(0.5), p10=pytest.approx(0.1), p90=pytest.approx(0.9))


def test_each_value_of_a_gpu_by_hand() -> None:
    def gpu(power: float, clock: float, used: int, reasons: list[str] | None, rate: float | None) -> GpuSample:
        return GpuSample(
            index=3,
            uuid="GPU-3",
            name="H200",
            power_w=power,
            power_limit_w=700.0,
            sm_clock_mhz=clock,
            sm_clock_max_mhz=2000.0,
            memory_used=used,
            memory_total=100,
            throttle=reasons,
            pcie_rx=rate,
        )

    samples = of_gpu(
        (0, gpu(0, 100, 10, ["power_cap"], 1e9)),
        (1, gpu(400, 1800, 70, ["power_cap", "hw_thermal"], None)),
        (2, gpu(600, 1000, 50, [], 3e9)),
        (3, gpu(500, 1700, 40, [], None)),
        (4, gpu(500, 1500, 40, None, None)),
    )
    (found,) = whole(samples).gpus
    assert (found.index, found.uuid, found.name, found.samples) == (3, "GPU-3", "H200", 5)
    assert found.power_w == pytest.approx(500.0)
    assert found.power_limit_w == 700.0
    assert found.sm_clock == pytest.approx(0.75)
    assert (found.memory_peak, found.memory_total) == (70, 100)
    assert found.throttled == {"power_cap": 0.5, "hw_thermal": 0.25}  # of the four samples that tell
    assert found.pcie_rx == 3e9
    assert found.pcie_tx is found.nvlink_rx is found.utilization is found.sm is None


def test_what_was_seen_fewer_than_twice_is_not_known() -> None:
    samples = of_gpu((0, GpuSample(index=0)), (1, None), (2, GpuSample(index=0, sm=0.0, throttle=[], memory_used=5)))
    (gpu,) = whole(samples).gpus
    assert gpu.samples == 2
    assert gpu.sm is gpu.throttled is gpu.memory_peak is gpu.others is None
    assert summarize(samples, 0, 2 * S) is not None
    assert summarize(samples, 1, 2 * S) is None  # [start, end)
    assert summarize([], 0, S) is None


def test_only_the_gpus_that_the_program_used() -> None:
    gpus = [GpuSample(index=2, uuid="GPU-b"), GpuSample(index=1, uuid="GPU-a"), GpuSample(index=0)]
    samples = [Sample(t, gpus) for t in (0, S)]

    def chosen(uuids: list[str] | None) -> list[int | None]:
        found = summarize(samples, 0, 2 * S, uuids)
        assert found is not None
        return [gpu.index for gpu in found.gpus]

    assert chosen(None) == [0, 1, 2]
    assert chosen(["GPU-a", "b"]) == [1, 2]
    assert chosen([]) == []


def test_others_on_the_gpu() -> None:
    def sample(t: int, *on_gpu: GpuProcess, host_pids: bool | None, own: int = 1) -> Sample:
        return Sample(t * S, [GpuSample(index=0, processes=list(on_gpu))], [ProcessSample(own)], host_pids=host_pids)

    def recording(host_pids: bool | None, own: int) -> list[Sample]:
        return [
            sample(0, GpuProcess(1, 50, 0.9), GpuProcess(8, 7, 0.9), host_pids=host_pids, own=own),
            sample(1, GpuProcess(1, 50, 0.9), GpuProcess(8, 9, 0.2), GpuProcess(9), host_pids=host_pids, own=own),
            sample(2, GpuProcess(1, 50, 0.9), GpuProcess(8, 8, 0.4), host_pids=host_pids, own=own),
        ]

    eight = OtherProcess(pid=8, memory_peak=9, sm=pytest.approx(0.3))
    nine = OtherProcess(pid=9, memory_peak=None, sm=None)
    for host_pids in (True, False, None):
        assert whole(recording(host_pids, 1)).gpus[0].others == [eight, nine]
    # None of the GPU's processes is the program's: others' all of them, or numbered otherwise, as in a container.
    assert [other.pid for other in whole(recording(True, 2)).gpus[0].others or []] == [1, 8, 9]
    assert whole(recording(False, 2)).gpus[0].others is None
    assert whole(recording(None, 2)).gpus[0].others is None


def test_cpu_use_of_processes_by_hand() -> None:
    def main(cpu_s: float, wait_s: float, rss: int) -> ProcessSample:
        return ProcessSample(1, 0, "python", 5, rss, cpu_s, wait_s)

    def worker(pid: int, cpu_s: float, started: int = 6) -> ProcessSample:
        return ProcessSample(pid, 1, "worker", started, None, cpu_s, None)

    samples = [
        Sample(0 * S, [], [main(10.0, 1.0, 30), worker(2, 7.0)], 8.0),
        Sample(2 * S, [], [main(12.0, 1.5, 90), worker(2, 8.0), worker(3, 0.5)], 8.0),
        Sample(4 * S, [], [main(16.0, 2.0, 60), worker(3, 2.0), worker(2, 0.4, started=9)], 6.0),
    ]
    found = whole(samples)
    assert (found.seconds, found.samples, found.cores) == (4.0, 3, 6.0)
    assert [(p.pid, p.started, p.command, p.cores, p.samples, p.children) for p in found.processes] == [
        (1, 5, "python", pytest.approx(6 / 4), 3, 2),
        (3, 6, "worker", pytest.approx(2 / 4), 2, 0),  # started within: all that it used
        (2, 6, "worker", pytest.approx(1 / 4), 2, 0),
        (2, 9, "worker", pytest.approx(0.4 / 4), 1, 0),  # another process of the same number
    ]
    assert found.processes[0].wait == pytest.approx(0.25)
    assert found.processes[0].rss_peak == 90
    assert found.processes[1].wait is found.processes[1].rss_peak is found.processes[1].threads is None
    # From 2 s on: process 3 was there before, and what it had used is not of this stretch.
    late = {(p.pid, p.started): p.cores for p in whole(samples, 2).processes}
    assert late == {
        (1, 5): pytest.approx(2.0),
        (3, 6): pytest.approx(0.75),
        (2, 9): pytest.approx(0.2),
        (2, 6): None,
    }


def test_a_sum_that_falls_began_again_at_zero() -> None:
    samples = [Sample(t * S, [], [ProcessSample(1, cpu_s=cpu_s)]) for t, cpu_s in enumerate((5.0, 6.0, 0.5, 1.5))]
    assert whole(samples).processes[0].cores == pytest.approx((1.0 + 0.5 + 1.0) / 3)


def test_cpu_use_of_threads_is_of_the_time_in_which_they_were_looked_at() -> None:
    def process(*threads: ThreadSample) -> list[ProcessSample]:
        return [ProcessSample(1, cpu_s=0.0, threads=list(threads) or None)]

    samples = [
        Sample(0 * S, [], process()),
        Sample(1 * S, [], process(ThreadSample(1, "main", 3.0, 0.5), ThreadSample(2, "pool", 1.0, 0.0))),
        Sample(2 * S, [], process()),
        Sample(3 * S, [], process(ThreadSample(1, "main", 4.8, 0.6), ThreadSample(4, "python", 0.2))),
        Sample(5 * S, [], process(ThreadSample(1, "main", 6.6, 0.9), ThreadSample(4, "pin", 0.8))),
        Sample(9 * S, [], process()),
    ]
    assert whole(samples).processes[0].threads == [
        ThreadSummary(tid=1, name="main", cores=pytest.approx(0.9), wait=pytest.approx(0.1)),
        ThreadSummary(tid=4, name="pin", cores=pytest.approx(0.2), wait=None),
        ThreadSummary(tid=2, name="pool", cores=None, wait=None),
    ]
    assert whole(samples, 0, 3).processes[0].threads is None


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_program_that_keeps_a_thread_busy_is_seen_to(tmp_path: Path) -> None:
    text = (
        "import ctypes, threading, time\n"
        "def busy():\n"
        "    ctypes.CDLL(None).prctl(15, b'busy', 0, 0, 0)\n"
        "    end = time.monotonic() + 30\n"
        "    while time.monotonic() < end: pass\n"
        "threading.Thread(target=busy, daemon=True).start()\n"
        "print(flush=True)\n"
        "input()\n"
    )
    child = subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    with Watch(tmp_path / "counters.jsonl", child.pid, None) as watch, child.stdin, child.stdout:
        child.stdout.readline()
        for _ in range(4):
            watch.sample({child.pid})
            time.sleep(0.2)
    child.kill()
    child.wait()
    found = whole(read(tmp_path / "counters.jsonl")[0], 0, 1e9)
    (process,) = found.processes
    busy = next(thread for thread in process.threads or [] if thread.name == "busy")
    assert busy.cores is not None
    assert busy.wait is not None
    assert busy.cores + busy.wait == pytest.approx(1, abs=0.15)  # it ran, or waited for a core
    assert process.cores == pytest.approx(busy.cores, abs=0.1)
    assert all(thread.cores == pytest.approx(0, abs=0.05) for thread in process.threads or [] if thread.name != "busy")
