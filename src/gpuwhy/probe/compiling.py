"""When torch compiles, what, and why again."""

from __future__ import annotations

import sys
import time
from threading import get_ident
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import format as kinds

if TYPE_CHECKING:
    from .recorder import Recorder


def hook(recorder: Recorder, module: ModuleType) -> None:
    """Watch compilations, by the compiler's own callbacks (torch 2.3 and later)."""
    handler = getattr(module, "callback_handler", None)
    if handler is None:
        recorder.journal.note("missing", what="compilations: this torch has no callbacks for them")
        return
    begun: list[int] = []

    def start(*_: Any) -> None:
        begun.append(time.monotonic_ns())

    def end(*_: Any) -> None:
        if begun:
            recorder.guard(compiled, begun.pop())

    def compiled(start: int) -> None:
        now = time.monotonic_ns()
        recorder.journal.record(kinds.COMPILE, 0, 0, get_ident(), start, now, 0, 0)
        recorder.journal.note("compiled", begun=start, **_what())

    handler.register_start_callback(start)
    handler.register_end_callback(end)


def _what() -> dict[str, Any]:
    """What the compiler says of its latest compilation."""
    utils = sys.modules.get("torch._dynamo.utils")
    ask = getattr(utils, "get_compilation_metrics", None)
    metrics = ask() if ask is not None else []
    if not metrics:
        return {}
    last = metrics[-1]
    names = ("co_name", "co_filename", "co_firstlineno", "recompile_reason", "fail_reason")
    return {name: getattr(last, name, None) for name in names}
