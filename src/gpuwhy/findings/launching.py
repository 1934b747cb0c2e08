"""The host time that goes to launching, and what of it a compiler or a graph takes over."""

from __future__ import annotations

import re

import numpy as np

from gpuwhy.findings.base import LONG_NS
from gpuwhy.findings.stops import marked, stops
from gpuwhy.ledger.classes import BACKWARD
from gpuwhy.whatif.batch import COMPUTING_NS
from gpuwhy.whatif.setting import Ops, Setting, Slices

LAUNCHING = ("dispatch", "launch", "host_compute", "outside_operators")
STAYS = re.compile(
    r"Optimizer\.(step|zero_grad)#|autograd::engine::evaluate_function: (torch::autograd::AccumulateGrad|CudnnRnn)|"
    r"aten::(lstm|gru|rnn_tanh|rnn_relu|_cudnn_rnn)$"
)
"""What a compiled model does not take in. (TorchDynamo leaves out recurrent layers unless it is told otherwise.)"""
ENTERING_NS = 300_000, 180_000, 450_000
"""Host time to enter a compiled model and to launch its graph, without a profiler: expected, at best, at worst (H200,
PyTorch 2.11)."""
TRAINED = 6
"""With a backward pass there is so many times as much of it: two parts, the loss between, and gradients to hand on."""


def launching_slices(setting: Setting) -> Slices:
    """Host time that goes to launching, without what blocks and what goes on for long on its own."""
    slices = setting.slices_of(*LAUNCHING)
    slices &= ~(setting.slices_of("outside_operators") & setting.long(LONG_NS))
    slices &= ~(setting.slices_of("host_compute") & setting.long(COMPUTING_NS))
    pieces = [stop.pieces for stop in stops(setting).values()]
    return slices & ~setting.slices_in(marked(setting, np.concatenate(pieces))) if pieces else slices


def of_model(setting: Setting) -> Slices:
    """What of it the model's forward and backward pass take."""
    return launching_slices(setting) & ~setting.slices_in(setting.pieces(STAYS))


def ops_of_model(setting: Setting) -> Ops:
    """All operations but those that a compiled model does not take in."""
    return np.asarray(~setting.ops_in(setting.pieces(STAYS)))


def entering_ns(setting: Setting) -> tuple[float, ...]:
    """Host time of a turn around what a compiled model launches: expected, at best, at worst."""
    times = setting.steps * (TRAINED if setting.pieces(BACKWARD).any() else 1)
    return tuple(times * ns for ns in ENTERING_NS)
