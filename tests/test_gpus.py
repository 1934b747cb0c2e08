"""What NVML says of GPUs, against a driver made up here: its structures and errors are those of the package."""

from __future__ import annotations

import ctypes
import math
import sys
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from gpuwhy.run.gpus import GpuProcess, Gpus, GpuSample, find_gpus

GIB, MIB = 1 << 30, 1 << 20
PCIE_CALL = "nvmlDeviceGetPcieThroughput"


def error(code: int) -> Exception:
    return pynvml.NVMLError(code)


class Nvml:
    """Stands in for pynvml. A GPU is a dictionary from a function's name to its answer: a value, or an error to raise.

    GPM's counters grow by `gpm` (metric → percent or MiB/s) with the clock `now_ns`, and a metric is what they grew by
    between two samples; so a wrong pair of samples gives a wrong number.
    """

    c_nvmlGpmMetricsGet_t = pynvml.c_nvmlGpmMetricsGet_t
    NVML_GPM_METRICS_GET_VERSION = pynvml.NVML_GPM_METRICS_GET_VERSION

    def __init__(self, *gpus: dict[str, Any]) -> None:
        self.gpus = gpus
        self.calls: Counter[str] = Counter()
        self.now_ns = 1_000_000_000
        self.taken: dict[int, tuple[int, dict[int, float]]] = {}
        self.grown: dict[int, float] = {}
        self.freed = 0

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvmlDevice") or name in self.gpus[0].get("missing", ()):
            raise AttributeError(name)

        def ask(gpu: dict[str, Any], *arguments: Any) -> Any:
            self.calls[name] += 1
            answer = gpu.get("lost") or gpu.get(name, error(pynvml.NVML_ERROR_NOT_SUPPORTED))
            answer = answer(*arguments) if callable(answer) else answer
            if isinstance(answer, Exception):
                raise answer
            return answer

        return ask

    def nvmlInit(self) -> None:
        self.calls["init"] += 1

    def nvmlShutdown(self) -> None:
        self.calls["shutdown"] += 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:
        if "closed" in self.gpus[index]:
            raise error(pynvml.NVML_ERROR_NO_PERMISSION)
        return self.gpus[index]

    def nvmlGpmQueryDeviceSupport(self, gpu: dict[str, Any]) -> Any:
        if "gpm" not in gpu:
            raise error(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return SimpleNamespace(isSupportedDevice=1)

    def nvmlGpmSampleAlloc(self) -> Any:
        self.calls["alloc"] += 1
        return ctypes.cast(ctypes.c_void_p(self.calls["alloc"] * 64), pynvml.c_nvmlGpmSample_t)

    def nvmlGpmSampleFree(self, sample: Any) -> None:
        self.freed += 1

    def nvmlGpmSampleGet(self, gpu: dict[str, Any], sample: Any) -> None:
        if gpu.get("gpm_error"):
            raise gpu["gpm_error"]
        self.taken[address(sample)] = (self.now_ns, {metric: self.grown.get(metric, 0.0) for metric in gpu["gpm"]})

    def nvmlGpmMigSampleGet(self, gpu: dict[str, Any], instance: int, sample: Any) -> None:
        share = gpu["shares"][instance]
        self.taken[address(sample)] = (
            self.now_ns,
            {metric: self.grown.get(metric, 0.0) * share for metric in gpu["gpm"]},
        )

    def nvmlGpmMetricsGet(self, asked: Any) -> None:
        (first_ns, first), (last_ns, last) = self.taken[address(asked.sample1)], self.taken[address(asked.sample2)]
        assert last_ns - first_ns >= 100_000_000
        for place in range(asked.numMetrics):
            metric = asked.metrics[place]
            known = metric.metricId in last
            metric.nvmlReturn = 0 if known else pynvml.NVML_ERROR_NOT_SUPPORTED
            grown = last.get(metric.metricId, 0.0) - first.get(metric.metricId, 0.0)
            metric.value = grown / ((last_ns - first_ns) / 1e9) if known else 0.0

    def pass_time(self, seconds: float) -> None:
        """The clock goes on, and what GPM counts grows."""
        self.now_ns += round(seconds * 1e9)
        for metric, rate in self.gpus[0].get("gpm", {}).items():
            self.grown[metric] = self.grown.get(metric, 0.0) + rate * seconds

    def open(self) -> Gpus:
        gpus, reason = find_gpus(self, lambda: self.now_ns)
        assert gpus is not None, reason
        return gpus


def address(sample: Any) -> int:
    return ctypes.cast(sample, ctypes.c_void_p).value or 0


def running(pid: int, memory: int | None) -> Any:
    return SimpleNamespace(pid=pid, usedGpuMemory=memory)


def used(pid: int, at_us: int, percent: int) -> Any:
    return SimpleNamespace(pid=pid, timeStamp=at_us, smUtil=percent)


def h200(**changes: Any) -> dict[str, Any]:
    return {
        "nvmlDeviceGetUUID": b"GPU-1234",
        "nvmlDeviceGetName": "NVIDIA H200",
        "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=87, memory=30),
        "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=141 * GIB, used=60 * GIB, free=81 * GIB),
        "nvmlDeviceGetPowerUsage": 512_340,
        "nvmlDeviceGetEnforcedPowerLimit": 700_000,
        "nvmlDeviceGetTemperature": 61,
        "nvmlDeviceGetClockInfo": lambda clock: {1: 1755, 2: 3201}[clock],
        "nvmlDeviceGetMaxClockInfo": 1980,
        "nvmlDeviceGetCurrentClocksEventReasons": 0x4 | 0x20,
        "nvmlDeviceGetComputeRunningProcesses": [running(4100, 60 * GIB)],
        "gpm": {2: 64.0, 5: 23.5, 10: 41.0, 20: 100.0, 21: 2048.0, 60: 7.0, 61: 9.0},
        **changes,
    }


def test_every_value_of_a_gpu_in_its_unit() -> None:
    nvml = Nvml(h200())
    with nvml.open() as gpus:
        gpus.sample()
        nvml.pass_time(0.5)
        (found,) = gpus.sample()
    assert found == GpuSample(
        index=0,
        uuid="GPU-1234",
        name="NVIDIA H200",
        utilization=0.87,
        memory_used=60 * GIB,
        memory_total=141 * GIB,
        power_w=512.34,
        power_limit_w=700.0,
        temperature_c=61.0,
        sm_clock_mhz=1755.0,
        sm_clock_max_mhz=1980.0,
        memory_clock_mhz=3201.0,
        throttle=["power_cap", "sw_thermal"],
        sm=0.64,
        tensor=0.235,
        dram=0.41,
        pcie_tx=100.0 * MIB,
        pcie_rx=2048.0 * MIB,
        nvlink_rx=7.0 * MIB,
        nvlink_tx=9.0 * MIB,
        processes=[GpuProcess(4100, 60 * GIB, None)],
    )
    assert nvml.calls["init"] == nvml.calls["shutdown"] == 1


def test_counters_are_of_the_time_since_the_last_sample_and_nothing_is_allocated() -> None:
    nvml = Nvml(h200(gpm={2: 10.0}))
    gpus = nvml.open()
    assert gpus.sample()[0].sm is None
    for percent in (10.0, 50.0, 90.0):
        nvml.gpus[0]["gpm"][2] = percent
        nvml.pass_time(0.5)
        assert gpus.sample()[0].sm == pytest.approx(percent / 100)
    gpus.close()
    gpus.close()
    assert nvml.calls["alloc"] == nvml.freed == 2


def test_counters_closer_than_100_ms_are_left_for_the_next_sample() -> None:
    nvml = Nvml(h200(gpm={2: 20.0}))
    gpus = nvml.open()
    gpus.sample()
    nvml.pass_time(0.05)
    assert gpus.sample()[0].sm is None
    nvml.gpus[0]["gpm"][2] = 80.0
    nvml.pass_time(0.1)
    assert gpus.sample()[0].sm == pytest.approx((0.05 * 0.2 + 0.1 * 0.8) / 0.15)


@pytest.mark.parametrize(("percent", "fraction"), [(0.0, 0.0), (103.0, 1.0), (400.0, None), (-3.0, None)])
def test_a_metric_that_makes_no_sense_is_not_known(percent: float, fraction: float | None) -> None:
    nvml = Nvml(h200(gpm={2: percent, 10: 50.0}))
    gpus = nvml.open()
    gpus.sample()
    nvml.pass_time(0.5)
    (found,) = gpus.sample()
    assert (found.sm, found.dram) == (fraction, 0.5)
    assert found.tensor is found.nvlink_rx is None  # the GPU has no such counter


def test_a_metric_that_is_no_number_is_not_known() -> None:
    nvml = Nvml(h200(gpm={2: 50.0}))
    gpus = nvml.open()
    gpus.sample()
    nvml.pass_time(0.5)
    nvml.grown[2] = math.nan
    assert gpus.sample()[0].sm is None


def test_what_is_not_supported_is_asked_once_and_loses_nothing_else() -> None:
    nvml = Nvml(h200(nvmlDeviceGetPowerUsage=error(pynvml.NVML_ERROR_NOT_SUPPORTED), missing=["nvmlDeviceGetName"]))
    gpus = nvml.open()
    for _ in range(5):
        (found,) = gpus.sample()
    assert found.power_w is found.name is None
    assert (found.power_limit_w, found.temperature_c, found.utilization) == (700.0, 61.0, 0.87)
    assert nvml.calls["nvmlDeviceGetPowerUsage"] == 1
    assert nvml.calls["nvmlDeviceGetTemperature"] == 5


def test_one_clock_that_is_not_supported_does_not_lose_the_other() -> None:
    def clock(which: int) -> Any:
        return 1500 if which == 1 else error(pynvml.NVML_ERROR_NOT_SUPPORTED)

    gpus = Nvml(h200(nvmlDeviceGetClockInfo=clock)).open()
    gpus.sample()
    (found,) = gpus.sample()
    assert (found.sm_clock_mhz, found.memory_clock_mhz) == (1500.0, None)


def test_what_failed_for_once_is_asked_again() -> None:
    answers = iter([error(pynvml.NVML_ERROR_UNKNOWN), error(pynvml.NVML_ERROR_TIMEOUT), 55])
    gpus = Nvml(h200(nvmlDeviceGetTemperature=lambda _: next(answers))).open()
    assert [gpus.sample()[0].temperature_c for _ in range(3)] == [None, None, 55.0]


def test_a_card_that_answers_nothing_is_still_listed() -> None:
    (found,) = Nvml({}).open().sample()
    assert found == GpuSample(index=0)


def test_a_lost_gpu_is_left_out_and_the_others_go_on() -> None:
    first, second = h200(), h200(nvmlDeviceGetUUID="GPU-5678")
    nvml = Nvml(first, second)
    gpus = nvml.open()
    assert [gpu.uuid for gpu in gpus.sample()] == ["GPU-1234", "GPU-5678"]
    first["lost"] = pynvml.NVMLError_GpuIsLost()
    for _ in range(2):
        nvml.pass_time(0.5)
        assert [(gpu.index, gpu.power_w) for gpu in gpus.sample()] == [(1, 512.34)]
    second["lost"] = pynvml.NVMLError_GpuIsLost()
    assert gpus.sample() == gpus.sample() == []
    gpus.close()
    assert nvml.freed == nvml.calls["alloc"] == 4


def test_counters_that_end_mid_run_take_nothing_along() -> None:
    nvml = Nvml(h200())
    gpus = nvml.open()
    gpus.sample()
    nvml.gpus[0]["gpm_error"] = error(pynvml.NVML_ERROR_NO_PERMISSION)
    nvml.pass_time(0.5)
    (found,) = gpus.sample()
    assert found.sm is None
    assert found.power_w == 512.34


@pytest.mark.parametrize(
    ("bits", "names"),
    [
        (0x0, []),
        (0x1, []),  # idle is no throttling
        (0x1 | 0x2, ["application_clocks"]),
        (0x8 | 0x40 | 0x80, ["hw_slowdown", "hw_thermal", "hw_power_brake"]),
        (0x10 | 0x100, ["sync_boost", "display_clocks"]),
    ],
)
@pytest.mark.parametrize("old", [False, True])
def test_throttling_in_words_from_new_and_old_drivers(bits: int, names: list[str], old: bool) -> None:
    gpu = h200(nvmlDeviceGetCurrentClocksEventReasons=bits)
    if old:
        gpu["nvmlDeviceGetCurrentClocksEventReasons"] = pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        gpu["nvmlDeviceGetCurrentClocksThrottleReasons"] = bits
    assert Nvml(gpu).open().sample()[0].throttle == names


def test_pcie_traffic_is_asked_for_once_a_sample_in_turns() -> None:
    gpus_without = [h200(nvmlDeviceGetPcieThroughput=lambda way, n=n: 1000 * n + way) for n in (1, 2)]
    for gpu in gpus_without:
        del gpu["gpm"]
    nvml = Nvml(*gpus_without)
    gpus = nvml.open()
    seen = []
    for count in range(1, 5):
        seen += [(gpu.index, gpu.pcie_tx, gpu.pcie_rx) for gpu in gpus.sample() if gpu.pcie_tx or gpu.pcie_rx]
        assert nvml.calls[PCIE_CALL] == count
    # kB/s: 0 is NVML's number for what the GPU sends, 1 for what it receives
    assert seen == [(0, 1_000_000.0, None), (0, None, 1_001_000.0), (1, 2_000_000.0, None), (1, None, 2_001_000.0)]


def test_pcie_traffic_that_the_gpu_counts_is_not_asked_for() -> None:
    nvml = Nvml(h200(nvmlDeviceGetPcieThroughput=5))
    gpus = nvml.open()
    for _ in range(3):
        gpus.sample()
        nvml.pass_time(0.5)
    assert nvml.calls[PCIE_CALL] == 0
    del nvml.gpus[0]["gpm"][20], nvml.gpus[0]["gpm"][21]  # a GPU with counters, but without these
    gpus = nvml.open()
    for _ in range(3):
        gpus.sample()
        nvml.pass_time(0.5)
    assert nvml.calls[PCIE_CALL] == 1


def test_processes_with_memory_and_utilization() -> None:
    answers = iter(
        [
            [used(10, 1_000, 99)],  # of the time before: not ours to tell
            [
                used(10, 2_000, 40),
                used(10, 2_500, 60),
                used(30, 2_500, 8),
                used(30, 900, 80),
                used(0, 9**15, 5),
                used(77, 2_500, 4**15),
            ],
            error(pynvml.NVML_ERROR_NOT_FOUND),  # nothing new
        ]
    )
    since = []

    def utilization(last_us: int) -> Any:
        since.append(last_us)
        return next(answers)

    gpu = h200(
        nvmlDeviceGetProcessUtilization=utilization,
        nvmlDeviceGetComputeRunningProcesses=[running(10, 5 * GIB), running(20, None), running(21, 2**64 - 1)],
        nvmlDeviceGetGraphicsRunningProcesses=[running(10, 6 * GIB)],
    )
    gpus = Nvml(gpu).open()
    first, second, third = (gpus.sample()[0].processes for _ in range(3))
    held = [GpuProcess(10, 6 * GIB), GpuProcess(20), GpuProcess(21)]
    assert first == third == held
    assert second == [
        GpuProcess(10, 6 * GIB, 0.5),
        GpuProcess(20, None, 0.0),
        GpuProcess(21, None, 0.0),
        GpuProcess(30, None, 0.08),
    ]
    assert since == [0, 1_000, 2_500]


def test_a_gpu_without_processes_is_not_one_whose_processes_are_not_known() -> None:
    assert Nvml(h200(nvmlDeviceGetComputeRunningProcesses=[])).open().sample()[0].processes == []
    assert Nvml(h200(nvmlDeviceGetComputeRunningProcesses=error(3))).open().sample()[0].processes is None


def test_each_mig_instance_with_its_own_memory_and_counters() -> None:
    def instance(number: int) -> dict[str, Any]:
        return {
            "nvmlDeviceGetUUID": f"MIG-{number}",
            "nvmlDeviceGetName": "NVIDIA H200 MIG 1g.18gb",
            "nvmlDeviceGetGpuInstanceId": number,
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=18 * GIB, used=number * GIB),
        }

    parts = {0: instance(7), 2: instance(9)}
    board = h200(
        nvmlDeviceGetMigMode=[1, 1],
        nvmlDeviceGetMaxMigDeviceCount=7,
        nvmlDeviceGetMigDeviceHandleByIndex=lambda place: parts.get(place, error(pynvml.NVML_ERROR_NOT_FOUND)),
        nvmlDeviceGetPcieThroughput=5,
        shares={7: 0.25, 9: 0.5},
        gpm={2: 80.0},
    )
    nvml = Nvml(board)
    gpus = nvml.open()
    gpus.sample()
    nvml.pass_time(0.5)
    found = gpus.sample()
    assert [(one.index, one.uuid, one.memory_used, one.sm) for one in found] == [
        (0, "MIG-7", 7 * GIB, pytest.approx(0.2)),
        (0, "MIG-9", 9 * GIB, pytest.approx(0.4)),
    ]
    assert [(one.utilization, one.power_w, one.pcie_rx) for one in found] == [(None, 512.34, None)] * 2
    gpus.sample()
    assert nvml.calls[PCIE_CALL] == 0  # traffic of the whole GPU


def test_why_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithoutDriver:
        def nvmlInit(self) -> None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    found, reason = find_gpus(WithoutDriver())
    assert found is None
    assert reason is not None
    assert "no NVIDIA driver" in reason
    empty = Nvml()
    assert find_gpus(empty) == (None, "the NVIDIA driver sees no GPU")
    assert empty.calls["shutdown"] == 1
    found, reason = find_gpus(Nvml({"closed": True}))
    assert found is None
    assert reason is not None
    assert "access" in reason
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert find_gpus() == (None, "the package nvidia-ml-py is not installed")


def test_a_gpu_that_may_not_be_used_does_not_hide_the_others() -> None:
    (found,) = Nvml({"closed": True}, h200()).open().sample()
    assert found.index == 1


def test_this_machine_s_own_driver_or_why_there_is_none() -> None:
    gpus, reason = find_gpus()
    if gpus is None:
        assert reason
        return
    with gpus:
        assert all(gpu.uuid and gpu.memory_total for gpu in gpus.sample())
