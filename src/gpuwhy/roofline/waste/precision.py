"""Matrix products in a precision for which the device has far slower units than for another that would do."""

from __future__ import annotations

import numpy as np

from gpuwhy.roofline.view import View
from gpuwhy.roofline.waste.base import Waste, concerned

FASTER = 2.0
"""How much faster the other units must be."""
BETTER = {"fp32": ("bf16", "fp16", "tf32"), "fp64": ("fp32",)}
"""What each precision could be replaced by, the best first."""
MENDS = {
    "bf16": "torch.autocast('cuda', dtype=torch.bfloat16) around the forward pass, or "
    "torch.set_float32_matmul_precision('high') for TF32",
    "fp16": "torch.autocast('cuda', dtype=torch.float16) with torch.amp.GradScaler",
    "tf32": "torch.set_float32_matmul_precision('high')",
    "fp32": "float32 instead of float64 where the results allow it",
}


def precision(view: View) -> list[Waste]:
    """One entry a precision that is slower than need be on this device."""
    if view.ceilings is None:
        return []
    peaks = dict(view.ceilings.flops)
    peaks["fp64"] = max(peaks.get("fp64", 0.0), peaks.get("fp64_tensor", 0.0))
    found = []
    for now, others in BETTER.items():
        then = next((other for other in others if peaks.get(other, 0.0) >= FASTER * peaks.get(now, np.inf)), None)
        rows = np.flatnonzero((view.precision == view.precisions.index(now)) & (view.flops > 0))
        if then is None or not len(rows):
            continue
        fewer_bytes = 1.0 if then == "tf32" else 0.5
        compute = view.flops[rows] / peaks[then] * 1e9
        least = np.fmin(np.fmax(compute, fewer_bytes * view.memory[rows]), view.length[rows])
        found.append(
            Waste(
                "precision",
                f"matrix products in {now}, though this device has tensor cores for {then}"
                if then != "fp32"
                else "matrix products in fp64, at which this device is slow",
                MENDS[then],
                rows,
                int(view.ns[rows].sum()),
                int((least * view.share[rows]).sum()),
                concerned(view.groups, view, rows),
            )
        )
    return found
