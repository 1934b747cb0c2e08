"""Python's other threads, and whether they keep its lock from the thread of the loop."""

from __future__ import annotations

import threading
import time
from threading import get_ident

from . import format as kinds
from .journal import Journal

MOST_NAMED = 64


class Threads:
    """What is known of other threads; looked at from the thread of the loop, now and then."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.known: set[int] = set()

    def look(self) -> None:
        """Note new threads. Where there are any, give the lock away once, and note when it is back: at once, unless
        another thread was waiting for it and keeps it.
        """
        others = [thread for thread in threading.enumerate() if thread.ident != get_ident()]
        for thread in others[:MOST_NAMED]:
            tid = thread.native_id
            if tid is not None and tid not in self.known:
                self.known.add(tid)
                self.journal.note("thread", tid=tid, name=str(thread.name)[:100])
        if others:
            start = time.monotonic_ns()
            time.sleep(0)
            self.journal.record(kinds.LOCK, 0, 0, get_ident(), start, time.monotonic_ns(), 0, 0)
