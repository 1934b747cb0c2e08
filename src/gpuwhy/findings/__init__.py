"""Root causes of lost time: one small rule a file, given what it looks at and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from gpuwhy.findings.allocator import allocator
from gpuwhy.findings.attention import attention
from gpuwhy.findings.base import WORTH, Finding, Look, Mend
from gpuwhy.findings.checkpoint import checkpoint
from gpuwhy.findings.communication import communication
from gpuwhy.findings.compilation import compilation
from gpuwhy.findings.device_latency import device_latency
from gpuwhy.findings.device_to_host import device_to_host
from gpuwhy.findings.elementwise import elementwise
from gpuwhy.findings.garbage_collection import garbage_collection
from gpuwhy.findings.host_compute import host_compute
from gpuwhy.findings.host_to_device import host_to_device
from gpuwhy.findings.input import input_
from gpuwhy.findings.launch import launch
from gpuwhy.findings.layout import layout
from gpuwhy.findings.module_loading import module_loading
from gpuwhy.findings.outside_operators import outside_operators
from gpuwhy.findings.products import products
from gpuwhy.findings.recompute import recompute
from gpuwhy.findings.straggler import straggler
from gpuwhy.findings.synchronization import synchronization

__all__ = ["WORTH", "Finding", "Look", "Mend", "findings"]

RULES: tuple[Callable[[Look], Finding | None], ...] = (
    straggler,
    input_,
    checkpoint,
    host_to_device,
    device_to_host,
    synchronization,
    allocator,
    garbage_collection,
    compilation,
    module_loading,
    host_compute,
    outside_operators,
    launch,
    communication,
    device_latency,
)
OF_WASTES: tuple[Callable[[Look], list[Finding]], ...] = (products, attention, layout, recompute, elementwise)


def findings(look: Look) -> list[Finding]:
    """All findings, before it is known what their mends bring."""
    found = [rule(look) for rule in RULES]
    return [one for one in found if one is not None] + [one for rule in OF_WASTES for one in rule(look)]
