"""What the driver says of a device (through NVML): its clocks while it works, and who else uses it.

The one boundary to NVML. Without the package or the driver (AMD, other systems) everything here is unknown: None.
Clocks are MHz, memory bytes, utilization percent.
"""

from __future__ import annotations

import importlib
import os
import statistics
import time
from typing import Any

from gpuwhy.roofline.ceilings import Clocks, Range

BUSY_PERCENT = 5
"""Utilization from which on somebody else is taken to use the device."""
BUSY_BYTES, BUSY_SHARE = 1 << 30, 0.03
"""Memory in use from which on the same holds: more than both. A desktop and the driver itself take less."""
LOOKS, LOOK_EVERY_S = 4, 0.15
"""Utilization is a mean over up to a second: a single look may fall between two bursts."""

REASONS = {
    0x002: "application clocks setting",
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "thermal slowdown",
    0x040: "thermal slowdown by hardware",
    0x080: "power brake",
    0x100: "display clock setting",
}
"""NVML's bits of what holds clocks down, without `idle` (0x1). Source: nvml.h, nvmlClocksEventReason."""


class Driver:
    """NVML's view of one device. Any question may be answered with None."""

    def __init__(self, uuid: str | None) -> None:
        """`uuid` as torch reports it, with or without `GPU-`; None: unknown, which is enough if there is one device."""
        self.nvml: Any = None
        self.handle: Any = None
        try:
            nvml: Any = importlib.import_module("pynvml")
            nvml.nvmlInit()
        except Exception:  # no package, no driver, or a driver that does not answer
            return
        self.nvml = nvml
        self.handle = _handle(nvml, uuid)

    def ask(self, question: str, *arguments: Any, of_device: bool = True) -> Any:
        """The answer of an NVML function, or None where it has none."""
        if self.nvml is None or (of_device and self.handle is None):
            return None
        try:
            return getattr(self.nvml, question)(*([self.handle] if of_device else []), *arguments)
        except Exception:  # NVML's errors are the package's own class; a function may also be missing
            return None

    def version(self) -> str | None:
        """The driver's version."""
        answer = self.ask("nvmlSystemGetDriverVersion", of_device=False)
        return answer.decode() if isinstance(answer, bytes) else answer

    def in_use(self) -> str | None:
        """How somebody else uses the device, in words; None if nobody does or the driver does not say.

        To be asked before this process itself uses the device: in a container it cannot tell itself from others.
        """
        for look in range(LOOKS):
            time.sleep(LOOK_EVERY_S if look else 0)
            rates = self.ask("nvmlDeviceGetUtilizationRates")
            if rates is not None and rates.gpu >= BUSY_PERCENT:
                return f"its utilization is {rates.gpu} %"
        running = self.ask("nvmlDeviceGetComputeRunningProcesses") or []
        others = {process.pid for process in running} - {os.getpid()}
        memory = self.ask("nvmlDeviceGetMemoryInfo")
        if memory is None or memory.used <= max(BUSY_BYTES, BUSY_SHARE * memory.total):
            return None
        whose = f"{len(others)} other processes hold" if len(others) > 1 else "another process holds"
        return f"{whose} {memory.used / 1e9:.1f} GB of its memory"

    def known(self) -> bool:
        """Whether the driver can say who uses the device."""
        return self.handle is not None


def _handle(nvml: Any, uuid: str | None) -> Any:
    names = [uuid, f"GPU-{uuid}", f"MIG-{uuid}"] if uuid else []
    for name in names:
        try:
            return nvml.nvmlDeviceGetHandleByUUID(name)
        except Exception:  # not the name of a device
            continue
    try:
        return nvml.nvmlDeviceGetHandleByIndex(0) if nvml.nvmlDeviceGetCount() == 1 else None
    except Exception:
        return None


class ClockWatch:
    """Collects what the clocks are, each time that `look` is called."""

    LEAST_APART_S = 0.005
    """An answer takes the driver up to a millisecond: it is not asked for each of many short rounds."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.sm: list[float] = []
        self.memory: list[float] = []
        self.reasons: int | None = None
        self.looked = 0.0

    def look(self) -> None:
        """Ask for the clocks now."""
        now = time.monotonic()
        if now - self.looked < self.LEAST_APART_S:
            return
        self.looked = now
        for seen, clock in ((self.sm, "NVML_CLOCK_SM"), (self.memory, "NVML_CLOCK_MEM")):
            answer = self.driver.ask("nvmlDeviceGetClockInfo", getattr(self.driver.nvml, clock, None))
            if answer:
                seen.append(float(answer))
        reasons = self.driver.ask("nvmlDeviceGetCurrentClocksThrottleReasons")  # its name before driver 535, kept since
        if reasons is not None:
            self.reasons = (self.reasons or 0) | int(reasons)

    def clocks(self) -> Clocks:
        """All that was seen."""
        throttled = None if self.reasons is None else [text for bit, text in REASONS.items() if self.reasons & bit]
        return Clocks(sm=_range(self.sm), memory=_range(self.memory), throttled=throttled)


def _range(values: list[float]) -> Range | None:
    return Range(min=min(values), median=statistics.median(values), max=max(values)) if values else None
