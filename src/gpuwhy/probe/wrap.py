"""Functions of the program's libraries with the probe around them, so that the program cannot tell.

A wrapper is no wider than the function, passes on what comes out of it, and is in no traceback.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

Before = Callable[..., Any]
After = Callable[[int, int, Any, Any, "tuple[Any, ...]", "dict[str, Any]"], None]
"""Called with start and end (ns), what `before` returned, the result, and the arguments."""


def timed(owner: Any, name: str, after: After, before: Before | None = None) -> None:
    """Put a function in the place of `owner.name` that does the same and tells `after` how long it took.

    Neither `before` nor `after` may raise. `after` is not told of calls that raise.
    """
    original = getattr(owner, name, None)
    if original is None or getattr(original, "gpuwhy", False):
        return
    clock = time.monotonic_ns

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        was = before(*args, **kwargs) if before is not None else None
        start = clock()
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            hide(error)
            raise
        after(start, clock(), was, result, args, kwargs)
        return result

    wrapper.gpuwhy = True  # type: ignore[attr-defined]
    setattr(owner, name, wrapper)


def hide(error: BaseException) -> None:
    """Take the frame that caught an error out of its traceback; a bare `raise` does not put it back (Python 3.11)."""
    trace = error.__traceback__
    if trace is not None:
        error.__traceback__ = trace.tb_next
