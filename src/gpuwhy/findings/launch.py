"""The host does not launch work fast enough."""

from __future__ import annotations

import re

import numpy as np

from gpuwhy.findings.base import LONG_NS, WORTH, Finding, Look, Mend, mend_of
from gpuwhy.findings.elementwise import merged
from gpuwhy.findings.larger_batch import larger
from gpuwhy.findings.optimizer import fused_optimizer
from gpuwhy.findings.stops import marked, stops
from gpuwhy.ledger.classes import BACKWARD
from gpuwhy.reports.words import ms
from gpuwhy.whatif.batch import COMPUTING_NS
from gpuwhy.whatif.changes import composed, without_host_time
from gpuwhy.whatif.setting import Setting, Slices

LAUNCHING = ("dispatch", "launch", "host_compute", "outside_operators")
GRAPH_NS = 250_000, 100_000, 500_000
"""Host time around the launch of a graph: expected, at best, at worst (H200, PyTorch 2.11)."""
TRAINED = 6
"""With a backward pass there is so many times as much of it: two graphs, the loss between, and gradients to hand on."""
STAYS = re.compile(r"Optimizer\.(step|zero_grad)#|autograd::engine::evaluate_function: torch::autograd::AccumulateGrad")
"""What the graphs of a compiled model do not take in."""
REPLAY = re.compile(r"(cuda|hip|cu)GraphLaunch")


def launch(look: Look) -> Finding | None:
    """Launching takes longer than the launched work."""
    setting = look.setting
    launching = launching_slices(setting)
    own = setting.host_ns(launching)
    if look.device_ns is None or not look.is_worth(own):
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


def launching_slices(setting: Setting) -> Slices:
    """Host time that goes to launching, without what blocks and what goes on for long on its own."""
    slices = setting.slices_of(*LAUNCHING)
    slices &= ~(setting.slices_of("outside_operators") & setting.long(LONG_NS))
    slices &= ~(setting.slices_of("host_compute") & setting.long(COMPUTING_NS))
    pieces = [stop.pieces for stop in stops(setting).values()]
    return slices & ~setting.slices_in(marked(setting, np.concatenate(pieces))) if pieces else slices


def _graphs(look: Look, launching: Slices) -> Mend | None:
    """Forward and backward pass as one launch each, small kernels merged."""
    setting = look.setting
    if setting.pieces(REPLAY).any() or _cannot_be_captured(setting, launching):
        return None
    inside = launching & ~setting.slices_in(setting.pieces(STAYS))
    own = max(setting.host_ns(inside), 1.0)
    parts = TRAINED if setting.pieces(BACKWARD).any() else 1
    changes = [
        composed([without_host_time(inside, min(parts * ns / own, 1.0)), merge])
        for ns, merge in zip(GRAPH_NS, merged(setting), strict=True)
    ]
    return mend_of(
        "cuda_graphs",
        "launch the model as CUDA graphs, if its shapes stay the same",
        'torch.compile(model, mode="reduce-overhead")',
        changes,
    )


def _cannot_be_captured(setting: Setting, launching: Slices) -> bool:
    """Memory that comes from and goes back to the driver, and sizes that the host must know, cannot be in a graph."""
    allocating = setting.host_ns(setting.slices_of("allocator"))
    return allocating >= WORTH * setting.host_ns(launching) or "sizes" in stops(setting)
