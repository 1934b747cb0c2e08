"""Steps of the optimizer: the best mark of a training step, and one for all the batches of an accumulated one."""

from __future__ import annotations

from time import monotonic_ns
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import format as kinds
from . import forward
from .wrap import hide

if TYPE_CHECKING:
    from .recorder import Recorder


def hook(recorder: Recorder, module: ModuleType) -> None:
    """Watch all optimizers, by torch's own global hooks (2.0 and later)."""
    register = getattr(module, "register_optimizer_step_post_hook", None)
    if register is None:
        recorder.journal.note("missing", what="optimizer hooks: this torch is older than 2.0")
        return
    compiler: Any = None

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        nonlocal compiler
        if compiler is None:
            import torch

            compiler = torch.compiler
        if compiler.is_compiling():  # the step is being traced: this must leave nothing in it
            return
        try:
            recorder.guard(stepped, optimizer, monotonic_ns())
        except BaseException as error:
            hide(error)
            raise

    def stepped(optimizer: Any, now: int) -> None:
        if recorder.anchor < kinds.OPTIMIZER:
            forward.stop_watching()
        # The first one that steps: of several, that tells one turn of the loop from the next.
        recorder.boundary(kinds.OPTIMIZER, optimizer, now)

    register(after)
