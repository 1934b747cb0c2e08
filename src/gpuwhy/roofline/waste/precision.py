"""Matrix products in a precision for which the device has far slower units than for another that would do."""

from __future__ import annotations

import numpy as np

from gpuwhy.roofline.view import View
from gpuwhy.roofline.waste.base import Waste, waste

FASTER = 1.5
"""How much faster the other units must be."""
BETTER = {"fp32": ("bf16", "fp16", "tf32"), "tf32": ("bf16", "fp16"), "fp64": ("fp32",)}
"""What each precision could be replaced by, the best first."""
MENDS = {
    "bf16": "torch.autocast('cuda', dtype=torch.bfloat16) around the forward pass",
    "fp16": "torch.autocast('cuda', dtype=torch.float16) with torch.amp.GradScaler",
    "tf32": "torch.set_float32_matmul_precision('high')",
    "fp32": "float32 instead of float64 where the results allow it",
}
OR_TF32 = f"; {MENDS['tf32']} (TF32) has part of it"


def precision(view: View) -> list[Waste]:
    """One entry a precision that is slower than need be on this device."""
    if view.ceilings is None:
        return []
    peaks = {name: peak for name in view.precisions if (peak := view.ceilings.peak(name))}
    found = []
    for now, others in BETTER.items():
        then = next((other for other in others if peaks.get(other, 0.0) >= FASTER * peaks.get(now, np.inf)), None)
        rows = np.flatnonzero((view.precision == view.precisions.index(now)) & (view.flops > 0))
        if then is None or not len(rows):
            continue
        fewer_bytes = 1.0 if then == "tf32" else 0.5
        compute = view.flops / peaks[then] * 1e9
        least = np.fmax(compute, fewer_bytes * view.memory)
        found.append(
            waste(
                view,
                "precision",
                f"products in {now}, which this device does {peaks[then] / peaks[now]:.1f} times as fast in {then}",
                MENDS[then] + (OR_TF32 if (now, then) == ("fp32", "bf16") and "tf32" in peaks else ""),
                rows,
                view.least(rows, least),
            )
        )
    return found
