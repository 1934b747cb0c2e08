"""What the loop gets from `torch.utils.data.DataLoader`: how long it waited, and how many samples and tokens came."""

from __future__ import annotations

import sys
from collections.abc import Mapping
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

    def before(iterator: Any) -> None:
        recorder.guard(begin, iterator)

    def begin(iterator: Any) -> None:
        from time import monotonic_ns

        recorder.boundary(kinds.BATCH, None, monotonic_ns())
        if id(iterator) not in seen:
            seen.add(id(iterator))
            recorder.journal.note("loader", **_settings(iterator))

    def after(start: int, end: int, _: Any, batch: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        recorder.guard(arrived, start, end, batch)

    def arrived(start: int, end: int, batch: Any) -> None:
        samples, tokens, how = size(batch)
        recorder.journal.record(kinds.LOADER, 0, how, get_ident(), start, end, samples, tokens)

    timed(module._BaseDataLoaderIter, "__next__", after, before)


def _settings(iterator: Any) -> dict[str, Any]:
    return {
        "workers": getattr(iterator, "_num_workers", None),
        "pinned": getattr(iterator, "_pin_memory", None),
        "prefetch": getattr(iterator, "_prefetch_factor", None),
        "of": type(getattr(iterator, "_dataset", None)).__name__,
        "key": id(iterator),
    }


def size(batch: Any) -> tuple[int, int, int]:
    """Samples, tokens (-1: none, or not known) and how that was found, of a batch or of a model's arguments."""
    torch: Any = sys.modules.get("torch")
    if isinstance(batch, Mapping) and TOKENS in batch:
        found = batch[TOKENS]
        if isinstance(found, torch.Tensor) and found.dim() == 2:
            return int(found.shape[0]), int(found.shape[0] * found.shape[1]), kinds.INPUT_IDS
    first = _tensor(batch, torch.Tensor, DEPTH)
    if first is None or not first.dim():
        return -1, -1, 0
    is_text = first.dim() == 2 and not first.is_floating_point() and first.element_size() >= 4
    tokens = int(first.shape[0] * first.shape[1]) if is_text else -1
    return int(first.shape[0]), tokens, kinds.FIRST_TENSOR


def _tensor(value: Any, tensor: type, depth: int) -> Any:
    """The first tensor in nested lists, tuples and mappings."""
    if isinstance(value, tensor):
        return value
    if not depth:
        return None
    parts: Any = ()
    if isinstance(value, Mapping):
        parts = value.values()
    elif isinstance(value, (list, tuple)):
        parts = value[:16]
    for part in parts:
        found = _tensor(part, tensor, depth - 1)
        if found is not None:
            return found
    return None
