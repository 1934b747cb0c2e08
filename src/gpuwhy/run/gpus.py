"""What NVML says of all GPUs, from outside the program that uses them.

Anything may be unknown: None. A question that a GPU or its driver cannot answer is asked once and then never again, one
that fails now and then is asked again, and a GPU that is lost is left out from then on.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import msgspec

from gpuwhy.run.gpm import Gpm
from gpuwhy.run.values import Amount, Text, Whole

T = TypeVar("T")

THROTTLE = {
    0x002: "application_clocks",
    0x004: "power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal",
    0x040: "hw_thermal",
    0x080: "hw_power_brake",
    0x100: "display_clocks",
}
"""What holds clocks down, without `gpu_idle` (0x1), which is no throttling. Source: nvml.h, nvmlClocksEventReasons."""

PASSING = {0, 6, 7, 10, 11, 17, 19, 20, 21, 23, 27, 999}
"""Errors after which the same question may be answered: not found, size, timeout, interrupt, operating system, in use,
memory, no data, resources, not ready, unknown; and 0, which pynvml raises where there are no samples of processes."""
LOST = {1, 9, 15, 16, 28}
"""Errors after which nothing is: uninitialized, driver not loaded, GPU lost, reset required, GPU not found."""
MOST_BYTES = 1 << 60
"""Above that, a number of bytes is NVML's way to say `not available`."""
SM, MEMORY, TEMPERATURE_OF_GPU = 1, 2, 0
"""NVML's numbers of clocks and of the one temperature sensor that all GPUs have."""
PCIE = {"pcie_tx": 0, "pcie_rx": 1}
"""NVML's numbers of the directions."""
RUNNING = (
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
)


class GpuProcess(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A process that uses a GPU. In a container `pid` may be the host's number of it."""

    pid: Whole
    memory: Whole | None = None
    """Bytes."""
    sm: Amount | None = None
    """Fraction of time in which a kernel of it ran, as NVML counts it."""


class GpuSample(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One GPU, or one MIG instance of a GPU, at one time. None: not known.

    Fractions and rates are means since the last sample, `utilization` and the process's `sm` over up to a second. Of a
    MIG instance `index`, clocks, throttling, temperature and power are those of the whole GPU.
    """

    index: Whole | None = None
    uuid: Text | None = None
    name: Text | None = None
    utilization: Amount | None = None
    """Fraction of time in which any kernel ran, as the NVML utilization counter claims."""
    memory_used: Whole | None = None
    """Bytes."""
    memory_total: Whole | None = None
    power_w: Amount | None = None
    power_limit_w: Amount | None = None
    temperature_c: Amount | None = None
    sm_clock_mhz: Amount | None = None
    sm_clock_max_mhz: Amount | None = None
    memory_clock_mhz: Amount | None = None
    throttle: list[Text] | None = None
    """Names of `THROTTLE`; empty: known not to be throttled."""
    sm: Amount | None = None
    """Fraction of SMs that were busy."""
    tensor: Amount | None = None
    """Fraction of the tensor cores' peak."""
    dram: Amount | None = None
    """Fraction of DRAM's peak bandwidth."""
    pcie_rx: Amount | None = None
    """Bytes/s that the GPU receives."""
    pcie_tx: Amount | None = None
    nvlink_rx: Amount | None = None
    nvlink_tx: Amount | None = None
    processes: list[GpuProcess] | None = None


class Gpus:
    """All GPUs of this machine. To be used from one thread, and closed."""

    def __init__(self, nvml: Any, gpus: list[_Gpu], clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.nvml, self.gpus, self.clock_ns = nvml, gpus, clock_ns
        self.samples = 0

    def __enter__(self) -> Gpus:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def sample(self) -> list[GpuSample]:
        """All GPUs that answer, now."""
        turns = [(gpu, direction) for gpu in self.gpus for direction in gpu.directions()]
        turn = turns[self.samples % len(turns)] if turns else None
        self.samples += 1
        found = []
        for gpu in list(self.gpus):
            try:
                found.append(gpu.sample(self.clock_ns(), turn[1] if turn and turn[0] is gpu else None))
            except _LostError:
                self.gpus.remove(gpu)
                gpu.close()
        return found

    def close(self) -> None:
        """Let go of NVML."""
        for gpu in self.gpus:
            gpu.close()
        self.gpus = []
        if self.nvml is not None:
            with suppress(Exception):  # the driver may be gone already
                self.nvml.nvmlShutdown()
            self.nvml = None


def find_gpus(nvml: Any = None, clock_ns: Callable[[], int] = time.monotonic_ns) -> tuple[Gpus | None, str | None]:
    """The GPUs that NVML knows, or None and why there are none. `nvml` stands in for the module pynvml."""
    try:
        nvml = nvml or importlib.import_module("pynvml")
    except ImportError:
        return None, "the package nvidia-ml-py is not installed"
    try:
        nvml.nvmlInit()
    except Exception as error:  # NVML's errors are the package's own class; no library to load is one of them
        return None, f"no NVIDIA driver answers ({error})"
    found: list[_Gpu] = []
    reason = "the NVIDIA driver sees no GPU"
    try:
        count = int(nvml.nvmlDeviceGetCount())
    except Exception as error:
        count, reason = 0, f"the NVIDIA driver does not say which GPUs there are ({error})"
    for index in range(count):
        try:
            board = nvml.nvmlDeviceGetHandleByIndex(index)
            handles = _instances(nvml, board) or [(board, None)]
            found += [_Gpu(nvml, index, board, handle, instance) for handle, instance in handles]
        except Exception as error:  # this one does not answer: the others may
            reason = f"the NVIDIA driver does not give access to a GPU ({error})"
    gpus = Gpus(nvml, found, clock_ns)
    if not found:
        gpus.close()
        return None, reason
    return gpus, None


def _instances(nvml: Any, board: Any) -> list[tuple[Any, int | None]]:
    """MIG devices of a GPU, each with the number of its GPU instance."""
    found: list[tuple[Any, int | None]] = []
    try:
        if not nvml.nvmlDeviceGetMigMode(board)[0]:
            return []
        most = int(nvml.nvmlDeviceGetMaxMigDeviceCount(board))
    except Exception:  # a GPU without MIG
        return []
    for place in range(most):
        with suppress(Exception):  # places are not filled one after the other
            handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(board, place)
            found.append((handle, int(nvml.nvmlDeviceGetGpuInstanceId(handle))))
    return found


class _LostError(Exception):
    """This GPU answers nothing any more."""


class _Gpu:
    """One GPU, or one MIG instance (`handle`) of the GPU `board`."""

    def __init__(self, nvml: Any, index: int, board: Any, handle: Any, instance: int | None) -> None:
        self.nvml, self.index, self.board, self.handle = nvml, index, board, handle
        self.whole = instance is None
        self.refused: set[str] = set()
        self.seen_us = 0
        """Time of the newest sample of processes' utilization."""
        self.uuid = self.ask("uuid", lambda: _text(nvml.nvmlDeviceGetUUID(handle)))
        self.name = self.ask("name", lambda: _text(nvml.nvmlDeviceGetName(handle)))
        self.sm_clock_max = self.ask("sm_clock_max", lambda: float(nvml.nvmlDeviceGetMaxClockInfo(board, SM)))
        self.gpm = self.ask("gpm", lambda: Gpm(nvml, board, instance))
        if self.gpm is None or not self.gpm.supported:
            self.refused.add("gpm")
        self.pcie_counted: bool | None = None if "gpm" not in self.refused else False
        """Whether GPM counts PCIe; None: not known before its first metrics."""

    def ask(self, what: str, question: Callable[[], T]) -> T | None:
        """The answer, or None. What is answered never is not asked again."""
        if what in self.refused:
            return None
        try:
            return question()
        except Exception as error:  # NVML's errors are the package's own class; a function may also be missing
            code = getattr(error, "value", None)
            if code in LOST:
                raise _LostError from error
            if code not in PASSING:
                self.refused.add(what)
            return None

    def directions(self) -> list[str]:
        """Directions of PCIe traffic that have to be asked for.

        Such a question blocks for 20 ms in the driver, which samples the bus meanwhile. So only GPUs are asked that do
        not count traffic themselves, and `Gpus` asks one of them for one direction a sample, in turns: a sample is
        never held up by more than 20 ms, and means over a program's run are made of fewer values.
        """
        if not self.whole or self.pcie_counted is not False:
            return []
        return [direction for direction in PCIE if direction not in self.refused]

    def sample(self, now_ns: int, direction: str | None) -> GpuSample:
        """All that is known now, with PCIe traffic in `direction` where that has to be asked for."""
        nvml, board, handle, ask = self.nvml, self.board, self.handle, self.ask
        counted = self._counters(now_ns)
        if direction:
            # kB of 1000 or 1024 bytes: NVML does not say
            rate = ask(direction, lambda: float(nvml.nvmlDeviceGetPcieThroughput(board, PCIE[direction])) * 1000)
            counted = counted if rate is None else counted | {direction: rate}
        memory = ask("memory", lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        reasons = ask("reasons", lambda: int(nvml.nvmlDeviceGetCurrentClocksEventReasons(board)))
        if reasons is None:  # its name before driver 535
            reasons = ask("old_reasons", lambda: int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(board)))
        return GpuSample(
            index=self.index,
            uuid=self.uuid,
            name=self.name,
            utilization=ask("utilization", lambda: _fraction(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)),
            memory_used=_bytes(getattr(memory, "used", None)),
            memory_total=_bytes(getattr(memory, "total", None)),
            power_w=ask("power", lambda: float(nvml.nvmlDeviceGetPowerUsage(board)) / 1000),
            power_limit_w=ask("power_limit", lambda: float(nvml.nvmlDeviceGetEnforcedPowerLimit(board)) / 1000),
            temperature_c=ask("temperature", lambda: float(nvml.nvmlDeviceGetTemperature(board, TEMPERATURE_OF_GPU))),
            sm_clock_mhz=ask("sm_clock", lambda: float(nvml.nvmlDeviceGetClockInfo(board, SM))),
            sm_clock_max_mhz=self.sm_clock_max,
            memory_clock_mhz=ask("memory_clock", lambda: float(nvml.nvmlDeviceGetClockInfo(board, MEMORY))),
            throttle=None if reasons is None else [name for bit, name in THROTTLE.items() if reasons & bit],
            processes=self._processes(),
            **counted,
        )

    def close(self) -> None:
        """Let go of what was allocated."""
        if self.gpm is not None:
            with suppress(Exception):  # the driver may be gone already
                self.gpm.close()

    def _counters(self, now_ns: int) -> dict[str, float]:
        gpm = self.gpm
        counted = self.ask("gpm", lambda: gpm.read(now_ns)) if gpm is not None else None
        if "gpm" in self.refused:
            self.pcie_counted = False
        elif counted:
            self.pcie_counted = any(direction in counted for direction in PCIE)
        return counted or {}

    def _processes(self) -> list[GpuProcess] | None:
        """Processes that hold memory of the GPU or were seen to use it."""
        lists = [self.ask(question, partial(self._running, question)) for question in RUNNING]
        use = self._use()
        if use is None and all(one is None for one in lists):
            return None
        memory: dict[int, int | None] = {}
        for pid, bytes_ in (entry for one in lists for entry in one or []):
            memory[pid] = max((size for size in (memory.get(pid), bytes_) if size is not None), default=None)
        # NVML answers for processes that had some utilization (nvml.h): where it does, the others had none.
        none = None if use is None else 0.0
        sm = use or {}
        return [GpuProcess(pid, memory.get(pid), sm.get(pid, none)) for pid in sorted(memory.keys() | sm.keys())]

    def _running(self, question: str) -> list[tuple[int, int | None]]:
        return [(int(one.pid), _bytes(one.usedGpuMemory)) for one in getattr(self.nvml, question)(self.handle)]

    def _use(self) -> dict[int, float] | None:
        """Mean SM utilization a process since the last sample; None where there is nothing new."""
        before = self.seen_us
        found = self.ask("use", lambda: list(self.nvml.nvmlDeviceGetProcessUtilization(self.handle, before)))
        # Drivers give entries that nobody filled in: without a process, or with percents beyond 100.
        new = [one for one in found or [] if one.timeStamp > before and one.pid > 0 and 0 <= one.smUtil <= 100]
        if not new:
            return None
        self.seen_us = max(one.timeStamp for one in new)
        if not before:  # what happened before this was watched
            return None
        shares: dict[int, list[float]] = {}
        for one in new:
            shares.setdefault(int(one.pid), []).append(one.smUtil / 100)
        return {pid: sum(each) / len(each) for pid, each in shares.items()}


def _text(answer: str | bytes) -> str:
    """A name; older packages give bytes."""
    return (answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer))[:256]


def _fraction(percent: float) -> float | None:
    return percent / 100 if 0 <= percent <= 100 else None


def _bytes(value: int | None) -> int | None:
    return int(value) if value is not None and 0 <= value < MOST_BYTES else None
