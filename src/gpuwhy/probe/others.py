"""Profilers that the program brings: the probe's own stands aside as soon as one is made."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .wrap import hide

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
    """Have `stand_aside` called as the profiler is made: in `__new__`, since `__init__` warns of the line that called
    it, which a wrapper would be.
    """

    @functools.wraps(profiler.__init__)
    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            if not recorder.profiling.own:
                recorder.guard(recorder.profiling.stand_aside, "the program has a profiler of its own")
        except BaseException as error:
            hide(error)
            raise
        return object.__new__(cls)

    if "__new__" not in vars(profiler):
        profiler.__new__ = staticmethod(new)
