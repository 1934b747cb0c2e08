"""The host does not launch work fast enough."""

from __future__ import annotations

import re
from functools import partial

from gpuwhy.findings.base import WORTH, Finding, Look, Mend, mend_of
from gpuwhy.findings.elementwise import compiled_kernels
from gpuwhy.findings.larger_batch import larger
from gpuwhy.findings.launching import entering_ns, launching_slices, of_model, ops_of_model
from gpuwhy.findings.optimizer import fused_optimizer
from gpuwhy.findings.stops import stops
from gpuwhy.reports.words import ms
from gpuwhy.whatif.changes import composed, host_time, in_one_graph
from gpuwhy.whatif.setting import Setting, Slices

GAP_NS = 500
"""Between two kernels of a graph (H200, driver of CUDA 13.0: medians of 0.42 to 0.45 µs in five recordings, upper
quartiles of 0.5 to 0.8)."""
REPLAY = re.compile(r"(cuda|hip|cu)GraphLaunch")


def launch(look: Look) -> Finding | None:
    """Launching takes longer than the launched work."""
    setting = look.setting
    launching = launching_slices(setting)
    own = setting.host_ns(launching)
    if look.device_ns is None or own < look.device_ns or not look.is_worth(own):
        return None
    mends = [mend for mend in (fused_optimizer(look), _graphs(look, launching), larger(look)) if mend is not None]
    count = int(setting.judged_ops.sum()) / setting.steps
    return Finding(
        "launch",
        "the host does not launch work fast enough",
        [
            f"the host needs {ms(own)} ms a step, as recorded, to launch {count:,.0f} operations; "
            f"the device would be done with them in {ms(look.device_ns)} ms"
        ],
        "a step as long with half as many launches",
        mends,
    )


def _graphs(look: Look, launching: Slices) -> Mend | None:
    """Forward and backward pass compiled, and launched as one graph each."""
    setting = look.setting
    if setting.pieces(REPLAY).any() or _cannot_be_captured(setting, launching):
        return None
    inside = of_model(setting)
    closer = in_one_graph(ops_of_model(setting), GAP_NS)
    changes = [
        composed([host_time(inside, partial(min, ns)), closer, kernels])
        for ns, kernels in zip(entering_ns(setting), compiled_kernels(look), strict=True)
    ]
    return mend_of(
        "cuda_graphs",
        "compile the model, and launch it as CUDA graphs, if its shapes stay the same",
        'torch.compile(model, mode="reduce-overhead")',
        changes,
    )


def _cannot_be_captured(setting: Setting, launching: Slices) -> bool:
    """Memory that comes from and goes back to the driver, and sizes that the host must know, cannot be in a graph."""
    allocating = setting.host_ns(setting.slices_of("allocator"))
    return allocating >= WORTH * setting.host_ns(launching) or "sizes" in stops(setting)
