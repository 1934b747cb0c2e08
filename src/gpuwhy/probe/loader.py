"""What the loop gets from `torch.utils.data.DataLoader`: how long it waited, and how many samples and tokens came."""

from __future__ import annotations

import sys
from collections import UserDict
from threading import get_ident
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import format as kinds
from .wrap import timed

if TYPE_CHECKING:
    from .recorder import Recorder

DEPTH = 4
"""A batch is looked into so deep for its first tensor."""
TOKENS = "input_ids"


def hook(recorder: Recorder, module: ModuleType) -> None:
    """Watch the iterators of all data loaders."""
    seen: set[int] = set()

    def after(start: int, end: int, _: Any, batch: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        recorder.guard(arrived, start, end, batch, args[0])

    def arrived(start: int, end: int, batch: Any, iterator: Any) -> None:
        # A step begins with the wait for its batch; where none comes, as at the end of an epoch, there is no step.
        if recorder.anchor < kinds.BATCH:  # what is called in the data set has told steps until now
            recorder.boundary(kinds.BATCH, None, end)
        elif recorder.thread == get_ident():
            recorder.boundary(kinds.BATCH, None, start)
        if id(iterator) not in seen:
            seen.add(id(iterator))
            recorder.journal.note("loader", **_settings(iterator))
        samples, tokens, how = size(batch)
        recorder.journal.record(kinds.LOADER, 0, how, get_ident(), start, end, samples, tokens)

    timed(module._BaseDataLoaderIter, "__next__", after)


def _settings(iterator: Any) -> dict[str, Any]:
    return {
        "workers": getattr(iterator, "_num_workers", None),
        "pinned": getattr(iterator, "_pin_memory", None),
        "prefetch": getattr(iterator, "_prefetch_factor", None),
        "of": type(getattr(iterator, "_dataset", None)).__name__,
        "key": id(iterator),
    }


def size(batch: Any) -> tuple[int, int, int]:
    """Samples, tokens (-1: none, or not known) and how that was found, of a batch or of a model's arguments.

    No code of the program runs here: not that of its containers, nor that of its kinds of tensors.
    """
    torch: Any = sys.modules.get("torch")
    with torch._C.DisableTorchFunction():
        parts = _mapping(batch)
        found = parts.get(TOKENS) if parts is not None else None
        if isinstance(found, torch.Tensor) and found.dim() == 2:
            samples, length = _whole(found.shape[0]), _whole(found.shape[1])
            return samples, _product(samples, length), kinds.INPUT_IDS
        first = _tensor(batch, torch.Tensor, DEPTH)
        if first is None or not first.dim():
            return -1, -1, 0
        samples = _whole(first.shape[0])
        is_text = first.dim() == 2 and not first.is_floating_point() and first.element_size() >= 4
        return samples, _product(samples, _whole(first.shape[1])) if is_text else -1, kinds.FIRST_TENSOR


def _whole(length: Any) -> int:
    """A length; -1 for one that stands for several, as while a model is exported: asking for it would fix it."""
    return length if type(length) is int else -1


def _product(samples: int, length: int) -> int:
    return samples * length if samples >= 0 and length >= 0 else -1


def _mapping(value: Any) -> dict[Any, Any] | None:
    """The dictionary behind a batch that is one."""
    if isinstance(value, UserDict):
        value = vars(value).get("data")
    return dict(dict.items(value)) if isinstance(value, dict) else None


def _tensor(value: Any, tensor: type, depth: int) -> Any:
    """The first tensor in nested lists, tuples and mappings."""
    if isinstance(value, tensor):
        return value
    if not depth:
        return None
    mapping = _mapping(value)
    parts: Any = ()
    if mapping is not None:
        parts = mapping.values()
    elif isinstance(value, (list, tuple)):
        few = slice(16)
        parts = list.__getitem__(value, few) if isinstance(value, list) else tuple.__getitem__(value, few)
    for part in parts:
        found = _tensor(part, tensor, depth - 1)
        if found is not None:
            return found
    return None
