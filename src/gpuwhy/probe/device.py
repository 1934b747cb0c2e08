"""How long steps take on the device: events between steps, read when the device has passed them. Never waits."""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

from . import format as kinds
from .journal import Journal

MOST_PENDING = 512
"""Events that the device has not reached: a host further ahead than that is no longer measured."""
COUNTED = ("num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free", "num_sync_all_streams")
BYTES = ("allocated_bytes", "reserved_bytes")


class DeviceClock:
    """Events on the current stream. `pending` holds (step, event, device) that were not read, oldest first."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.pending: deque[tuple[int, Any, int]] = deque()
        self.spare: list[Any] = []
        self.told = False

    def module(self) -> Any:
        """`torch.cuda` or `torch.xpu`, once the program uses it; None before, and while a graph is captured."""
        torch = sys.modules.get("torch")
        for name in ("cuda", "xpu"):
            module = getattr(torch, name, None)
            if module is not None and module.is_initialized():
                if name == "cuda" and module.is_current_stream_capturing():
                    return None  # an event would become part of the program's graph
                return module
        return None

    def mark(self, step: int) -> None:
        """A step begins."""
        module = self.module()
        if module is None:
            self.pending.clear()
            return
        if not self.told:
            self._tell(module)
        self.poll()
        if len(self.pending) < MOST_PENDING:
            event = self.spare.pop() if self.spare else module.Event(enable_timing=True)
            event.record()
            self.pending.append((step, event, module.current_device()))

    def poll(self) -> None:
        """Read the events that the device has passed, two at most: as many as steps bring."""
        for _ in range(2):
            if len(self.pending) < 2 or not self.pending[1][1].query():
                return
            (step, begun, device), (following, ended, other) = self.pending.popleft(), self.pending[0]
            if device == other:
                taken = round(begun.elapsed_time(ended) * 1e6)
                steps = following - step
                self.journal.record(kinds.DEVICE, 0, device, 0, steps, steps, step, taken)
            self.spare.append(begun)

    def drain(self) -> None:
        """Read what the device has passed already."""
        if self.module() is not None:
            for _ in range(MOST_PENDING):
                self.poll()

    def memory(self) -> dict[str, int]:
        """What torch's allocator counts of the current device."""
        module = self.module()
        ask = getattr(module, "memory_stats_as_nested_dict", None)
        if ask is None:
            return {}
        found = ask()
        counted = {name: int(found[name]) for name in COUNTED if name in found}
        for name in BYTES:
            for of in ("peak", "current"):
                counted[f"{name}_{of}"] = int(found[name]["all"][of])
        return counted

    def _tell(self, module: Any) -> None:
        self.told = True
        of = module.get_device_properties(module.current_device())
        self.journal.note(
            "device",
            index=module.current_device(),
            name=getattr(of, "name", None),
            uuid=str(getattr(of, "uuid", "")) or None,
            memory=getattr(of, "total_memory", None),
        )
