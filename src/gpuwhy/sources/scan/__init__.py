"""Chrome-trace JSON, in pieces, to columns: one pass, memory for the columns and one event.

Times are int64 nanoseconds read from the decimal text, never through a float. Two back ends read exactly the
same events from any input, whole or damaged: `compiled` (scan.c) and, where that is not built or
GPUWHY_PURE_PYTHON is set, `pure`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

from gpuwhy.sources.columns import TABLES, Table
from gpuwhy.sources.scan import compiled
from gpuwhy.sources.scan.events import Events, NotEvents

__all__ = ["Events", "NotEvents", "is_compiled", "scan"]


def is_compiled() -> bool:
    """Whether `scan` uses the compiled back end."""
    return not os.environ.get("GPUWHY_PURE_PYTHON") and compiled.available()


def scan(
    chunks: Iterable[bytes],
    tables: Sequence[Table] = TABLES,
    *,
    on_progress: Callable[[int], None] | None = None,
) -> Events:
    """Read the events in `chunks`, pieces of any size of the decompressed JSON.

    A damaged file gives what was read before the damage, and `damage`. `on_progress` is told the number of
    bytes read every few MB. Raises `NotEvents` where there is no list of events; what `chunks` raises passes
    through.
    """
    if is_compiled():
        return compiled.scan(chunks, tables, on_progress=on_progress)
    from gpuwhy.sources.scan import pure  # imported only where it is needed: it costs a small profile its time

    return pure.scan(chunks, tables, on_progress=on_progress)
