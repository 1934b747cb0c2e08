"""How long Python collected garbage.

Python runs what is registered for it with signals pending, and drops what comes out: a handler of the program that
raises (as that of Ctrl-C does) would be run there, and its exception lost. So nothing here is Python code while a
collection begins or ends. `gc` calls `setattr(moments, "start" or "stop", …)`, both of these are properties, and one
of them takes the next item of an iterator, which is made by taking the time and appending it: all of that is C.
"""

from __future__ import annotations

import gc
import operator
import time
from collections import deque
from functools import partial
from itertools import repeat, starmap
from threading import get_ident
from typing import TYPE_CHECKING, Any

from . import format as kinds
from .journal import Journal

MOST = 4096
"""Collections between two looks that are noted, the latest."""
LONG_NS = 200_000
"""Shorter ones are not noted."""
if TYPE_CHECKING:
    Taking = starmap[Any]
else:
    Taking = starmap


_NOTHING: Any = operator.is_


class _Begins(Taking):
    start = property(None, next)
    stop = property(None, _NOTHING)


class _Ends(Taking):
    start = property(None, _NOTHING)
    stop = property(None, next)


class Collections:
    """When collections began and ended since they were last noted."""

    def __init__(self) -> None:
        self.begun: deque[int] = deque(maxlen=MOST)
        self.ended: deque[int] = deque(maxlen=MOST)

    def watch(self) -> None:
        """Take the time of all collections from now on."""
        for kind, times in ((_Begins, self.begun), (_Ends, self.ended)):
            now = starmap(time.monotonic_ns, repeat(()))
            gc.callbacks.append(partial(setattr, kind(times.append, zip(now))))

    def clear(self) -> None:
        """Forget them."""
        self.begun.clear()
        self.ended.clear()

    def note(self, journal: Journal) -> None:
        """Note the long ones."""
        begun, ended = self.begun, self.ended
        while ended:
            start, end = 0, ended.popleft()
            while begun and begun[0] <= end:
                start = begun.popleft()
            if start and end - start >= LONG_NS:
                journal.record(kinds.COLLECTION, 0, 0, get_ident(), start, end, 0, 0)
