"""Functions of the program's libraries with the probe around them, so that the program cannot tell.

A wrapper is no wider than the function, passes on what comes out of it, and is in no traceback.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
Before = Callable[..., Any]
After = Callable[[int, int, Any, Any, "tuple[Any, ...]", "dict[str, Any]"], None]
"""Called with start and end (ns), what `before` returned, the result, and the arguments."""


def timed(
    owner: Any, name: str, after: After, before: Before | None = None, failed: Callable[[], None] | None = None
) -> None:
    """Put a function in the place of `owner.name` that does the same and tells `after` how long it took.

    None of the three may raise. Of calls that raise `failed` is told, and `after` is not.
    """
    original = getattr(owner, name, None)
    if original is None or getattr(original, "gpuwhy", False):
        return
    clock = time.monotonic_ns

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            was = before(*args, **kwargs) if before is not None else None
            start = clock()
            result = original(*args, **kwargs)
            after(start, clock(), was, result, args, kwargs)
        except BaseException as error:
            if failed is not None:
                failed()
            hide(error)
            raise
        return result

    wrapper.gpuwhy = True  # type: ignore[attr-defined]
    setattr(owner, name, wrapper)


def hide(error: BaseException) -> None:
    """Take the probe's frames, down to the first that is not, out of the traceback of an error that one of them has
    caught; a bare `raise` does not put them back (Python 3.11).
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(HERE):
        trace = trace.tb_next
    error.__traceback__ = trace
