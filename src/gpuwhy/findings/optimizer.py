"""An optimizer that launches several kernels for each parameter."""

from __future__ import annotations

import re

import numpy as np

from gpuwhy.findings.base import Look, Mend, mend_of
from gpuwhy.steps import OPTIMIZER_STEP
from gpuwhy.whatif.changes import composed, lasting, without_host_time, without_ops

FUSED = re.compile(r"aten::_fused_")
FUSED_TENSOR_NS = 3_000, 1_500, 6_000
"""Host time of a fused optimizer for each tensor: expected, at best, at worst."""
FUSED_STEP_NS = 300_000
"""… and for each step."""
FUSED_PASSES = 0.35
"""Part of an optimizer's device time that is left when it goes through memory once: Adam then reads and writes seven
times its parameters, and as a loop of operators about twenty."""
NAME = re.compile(r"Optimizer\.step#(\w+)")


def fused_optimizer(look: Look) -> Mend | None:
    """A few kernels for all parameters; None where they are fused already."""
    setting, ops = look.setting, look.setting.timeline.ops
    pieces = setting.pieces(OPTIMIZER_STEP)
    launched = setting.ops_in(pieces)
    mine = np.flatnonzero(launched & setting.judged_ops)
    if not len(mine) or setting.ops_in(setting.pieces(FUSED))[mine].any():
        return None
    slices = setting.slices_in(pieces)
    own = max(setting.host_ns(slices), 1.0)
    tensors = np.unique(ops.name[mine], return_counts=True)[1].max() / setting.steps
    kept = np.zeros(len(ops), bool)
    kept[mine[:: max(len(mine) // setting.steps, 1)]] = True
    duration = setting.graph.duration
    scale = FUSED_PASSES * float(duration[mine].sum()) / max(float(duration[kept].sum()), 1.0)
    changes = [
        composed(
            [
                without_host_time(slices, min((FUSED_STEP_NS + ns * tensors) / own, 1.0)),
                lasting(kept, scale),
                without_ops(launched & ~kept),
            ]
        )
        for ns in FUSED_TENSOR_NS
    ]
    code = f"torch.optim.{_optimizer(look)}(..., fused=True)"
    return mend_of("fused_optimizer", "let the optimizer update all parameters in a few kernels", code, changes)


def _optimizer(look: Look) -> str:
    names = (NAME.match(name) for name in look.setting.timeline.names)
    return next((match[1] for match in names if match), "AdamW")
