"""Calls of models from outside of any other: the steps of loops without an optimizer, and what a step's samples are.

The watching of calls ends with the first step of an optimizer, so that a training loop does not pay for it.
"""

from __future__ import annotations

import builtins
import time
from threading import get_ident
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import format as kinds
from .loader import size
from .wrap import hide, timed

if TYPE_CHECKING:
    from .recorder import Recorder

_recorder: Any = None
_original: Any = None
_owner: Any = None
_inside: set[int] = set()
"""Threads in which a model is being called."""
_generating = 0


def hook_module(recorder: Recorder, module: ModuleType) -> None:
    """Watch calls of modules, and whether they train."""
    global _recorder, _original, _owner
    import sys

    _hook_modes(recorder, module.Module)
    if "torch._dynamo.utils" in sys.modules or _original is not None:
        return  # the compiler has seen the function that it takes for the usual one
    _recorder, _original, _owner = recorder, module.Module.__call__, module.Module
    _owner.__call__ = _call


def stop_watching() -> None:
    """From now on a call costs what it always did. The function stays the same object: the compiler compares it."""
    if _original is None or _call.__code__ is _original.__code__:
        return
    code = _original.__code__
    if code.co_freevars or any(name in vars(builtins) or name in _original.__globals__ for name in code.co_names):
        if _owner.__call__ is _call:  # an old torch, whose code needs names that are not here
            _owner.__call__ = _original
    else:
        _call.__code__ = code


def watch_again() -> None:
    """Watch calls as at first."""
    if _original is not None:
        _call.__code__ = _watching


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    thread = get_ident()
    try:
        if thread in _inside:
            return _original(self, *args, **kwargs)
        _inside.add(thread)
        try:
            _recorder.guard(_called, self, args, kwargs)
            return _original(self, *args, **kwargs)
        finally:
            _inside.discard(thread)
    except BaseException as error:
        hide(error)
        raise


_watching = _call.__code__


def _called(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """A model is called."""
    import torch

    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return  # what is asked of a tensor here would become part of the recorded model
    if getattr(module, "_is_replica", False):
        return  # a part of a call in another thread
    now = time.monotonic_ns()
    trains = module.training and torch.is_grad_enabled()
    samples, tokens, how = size(kwargs) if kwargs and "input_ids" in kwargs else size((args, kwargs))
    if trains:
        _recorder.optimizer_expected = True
    if _recorder.anchor and _recorder.thread != get_ident():
        _recorder.journal.several = True
    # The first model that is called: of several, that tells one turn of the loop from the next.
    _recorder.boundary(kinds.TOKEN if _generating else kinds.CALL, module, now)
    _recorder.journal.record(kinds.FORWARD, kinds.GRAD if trains else 0, how, get_ident(), now, now, samples, tokens)


def _hook_modes(recorder: Recorder, module: Any) -> None:
    outermost: Any = None
    """The model that is being switched, and with it all in it."""

    def before(model: Any, *_: Any, **__: Any) -> bool | None:
        nonlocal outermost
        if outermost is not None:
            return None
        outermost = model
        return bool(model.training)

    def after(start: int, _: int, was: bool | None, model: Any, *__: Any) -> None:
        nonlocal outermost
        if was is None:
            return
        outermost = None
        if model.training is not was:
            journal = recorder.journal
            recorder.guard(journal.record, kinds.EVALUATION, 0, 0, get_ident(), start, start, int(was), 0)

    def failed() -> None:
        nonlocal outermost
        outermost = None

    timed(module, "train", after, before, failed)


def hook_graphs(recorder: Recorder, module: ModuleType) -> None:
    """Watch replays of CUDA graphs: the steps of a loop that does nothing else."""

    def before(graph: Any) -> None:
        recorder.graphs = True
        recorder.guard(recorder.boundary, kinds.REPLAY, graph, time.monotonic_ns())

    timed(module.CUDAGraph, "replay", lambda *_: None, before)


def hook_generate(recorder: Recorder, module: ModuleType) -> None:
    """Watch `generate` of Hugging Face's models: each call of the model within it is a step."""

    def before(*args: Any, **kwargs: Any) -> None:
        global _generating  # noqa: PLW0603
        _generating += 1

    def done() -> None:
        global _generating  # noqa: PLW0603
        _generating = max(_generating - 1, 0)

    def after(start: int, end: int, _: Any, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        done()
        recorder.guard(generated, start, end, result, args, kwargs)

    def generated(start: int, end: int, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        out, _, _ = size(getattr(result, "sequences", result))
        length = _length(getattr(result, "sequences", result))
        given = _length(kwargs.get("input_ids", kwargs.get("inputs", args[1] if len(args) > 1 else None)))
        new = out * (length - given) if length >= given >= 0 and out > 0 else -1
        recorder.journal.record(kinds.GENERATE, 0, 0, get_ident(), start, end, out, new)

    timed(module.GenerationMixin, "generate", after, before, done)


def _length(value: Any) -> int:
    """The length of sequences, -1 where it is not known."""
    shape = getattr(value, "shape", None)
    return int(shape[1]) if shape is not None and len(shape) == 2 else -1
