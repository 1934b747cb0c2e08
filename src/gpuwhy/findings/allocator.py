"""Memory is taken from the driver and given back in the loop."""

from __future__ import annotations

from gpuwhy.findings.base import Finding, Look, Mend
from gpuwhy.findings.stops import stops
from gpuwhy.whatif.changes import composed, without_host_time


def allocator(look: Look) -> Finding | None:
    """Calls that allocate and free, and the waits for the device in them."""
    setting = look.setting
    slices = setting.slices_of("allocator")
    own = setting.host_ns(slices) + setting.waited_ns("allocator")
    if not look.is_worth(own):
        return None
    freeing = stops(setting).get("free")
    changes = [without_host_time(slices)] + ([freeing.no_waits(setting)] if freeing is not None else [])
    return Finding(
        "allocator",
        "memory is taken from the driver and given back in the loop",
        [f"{look.of_step(own)} in calls that allocate or free"],
        "a loop as slow when the allocator keeps its memory",
        [
            Mend(
                "keep_memory",
                "no torch.cuda.empty_cache() in the loop; if it is not called, memory is short or fragmented: set "
                "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
                None,
                composed(changes),
            )
        ],
    )
