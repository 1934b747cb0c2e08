"""Profilers that the program brings: the probe's own stands aside as soon as one is made."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from .wrap import timed

if TYPE_CHECKING:
    from .recorder import Recorder


def hook_profiler(recorder: Recorder, module: ModuleType) -> None:
    """`torch.profiler.profile`."""
    _watch(recorder, module._KinetoProfile)


def hook_autograd(recorder: Recorder, module: ModuleType) -> None:
    """`torch.autograd.profiler.profile` and `emit_nvtx`."""
    _watch(recorder, module.profile)
    _watch(recorder, module.emit_nvtx)


def _watch(recorder: Recorder, profiler: Any) -> None:
    def before(*args: Any, **kwargs: Any) -> None:
        if not recorder.profiling.own:
            recorder.guard(recorder.profiling.stand_aside, "the program has a profiler of its own")

    timed(profiler, "__init__", lambda *_: None, before)
