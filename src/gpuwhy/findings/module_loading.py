"""Kernels are loaded onto the device within the loop."""

from __future__ import annotations

from gpuwhy.findings.base import Finding, Look, off_the_loop


def module_loading(look: Look) -> Finding | None:
    """Modules and libraries that are loaded when a kernel of theirs is launched for the first time."""
    return off_the_loop(
        look,
        look.setting.slices_of("module_load"),
        "compile",
        "kernels are loaded onto the device within the loop",
        "later steps in which none is loaded",
        (
            "warm_up",
            "launch every kernel once before the loop, or load all of them at the start",
            "CUDA_MODULE_LOADING=EAGER",
        ),
    )
