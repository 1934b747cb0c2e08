"""What the program saves: checkpoints, written in the thread of the loop."""

from __future__ import annotations

from threading import get_ident
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import format as kinds
from .wrap import timed

if TYPE_CHECKING:
    from .recorder import Recorder


def hook_torch(recorder: Recorder, module: ModuleType) -> None:
    """`torch.save`."""
    _watch(recorder, module, "save")


def hook_distributed(recorder: Recorder, module: ModuleType) -> None:
    """`torch.distributed.checkpoint.save`."""
    _watch(recorder, module, "save")


def hook_safetensors(recorder: Recorder, module: ModuleType) -> None:
    """`safetensors.torch.save_file`, by which Hugging Face's models are saved."""
    _watch(recorder, module, "save_file")


def _watch(recorder: Recorder, module: ModuleType, name: str) -> None:
    def after(start: int, end: int, _: Any, __: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        recorder.guard(recorder.journal.record, kinds.CHECKPOINT, 0, 0, get_ident(), start, end, 0, 0)

    timed(module, name, after)
