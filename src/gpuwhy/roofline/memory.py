"""How much of a device's memory torch's allocator took."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuwhy.roofline.view import View

CUDA = 1
"""Number of the kind of device (c10::DeviceType) whose memory it is; HIP reports the same."""


def reserved_peak(view: View) -> int | None:
    """The most bytes that torch's allocator had reserved on the device, None where that was not recorded."""
    memory, device = view.timeline.memory, view.timeline.devices[view.ledger.device]
    rank = np.array([thread.rank for thread in view.timeline.threads] + [device.rank], np.int64)[memory.thread]
    own = (memory.device == device.number) & (rank == device.rank) & (memory.device_type == CUDA)
    reserved: NDArray[np.int64] = memory.reserved[own & (memory.reserved >= 0)]
    return int(reserved.max()) if len(reserved) else None
