"""When steps begin, and what is done then: the one place that all hooks of the probe report to.

Steps are told by the best anchor there is (`format.ANCHORS`): a loop that is seen only by its model's calls at first is
seen by its optimizer from the first `optimizer.step()` on.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from threading import get_ident
from typing import Any

from . import format as kinds
from .device import DeviceClock
from .journal import EVERY_NS, Journal
from .profile import Profiling
from .threads import Threads

HERE = os.path.dirname(os.path.abspath(__file__))
TEND_NS = 100_000_000
"""Events are put on the device's stream, and files written, no more often than this."""
MOST_OTHERS = 1_000
"""Other optimizers may step so often between two steps of the one that tells the loop's turns: there can be one for
each parameter."""
LOOK_EVERY_NS = 500_000_000
"""So often is looked what other threads do, and"""
MEMORY_EVERY_NS = 5_000_000_000
"""so often what torch's allocator counts."""


class Recorder:
    """What is known of the steps of this process. `off`: the probe has failed, or was stopped, and does nothing."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.off = False
        self.options = _options(folder)
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)

    def reopen(self, folder: str) -> None:
        """Begin anew, in another folder."""
        self.folder, self.options, self.off = folder, _options(folder), False
        self._begin()
        self.journal.note("begin")

    def _begin(self) -> None:
        """As a new process: what a fork inherits is its parent's, and so are the files."""
        self.journal = Journal(self.folder)
        self.anchor = 0
        self.anchored = 0
        """The `id` of what tells the steps; `alive` says whether that is still there. Nothing is kept alive here."""
        self.alive: Callable[[], object] = _nothing
        self.others = self.others_at = 0
        """How many others of its kind were seen since its last step, and at which step that was."""
        self.first = 0
        """The number of the first step that this anchor told."""
        self.thread = get_ident()
        self.due = 0
        self.device = DeviceClock(self.journal)
        self.profiling = Profiling(self)
        self.optimizer_expected = self.graphs = False
        self.looked = self.asked = 0
        self.threads = Threads(self.journal)
        self.control = _control(self.folder)
        self.requests = self.control[0] if self.control is not None else 0

    def guard(self, function: Callable[..., object], *arguments: Any) -> None:
        """Run a function of the probe. A failure of its own switches the probe off; the program does not see it."""
        if self.off:
            return
        try:
            function(*arguments)
        except Exception as error:
            if not _own(error):
                raise
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Switch off, and say why where the report can find it."""
        self.off = True
        try:
            self.profiling.give_up()
        except Exception as another:
            error = another
        try:
            told = traceback.format_exception_only(type(error), error)[-1].strip()
            where = traceback.extract_tb(error.__traceback__)[-1] if error.__traceback__ else None
            self.journal.note("failed", error=told[:500], where=f"{where.filename}:{where.lineno}" if where else None)
            self.journal.flush(time.monotonic_ns())
        except Exception:
            return

    def user_step(self, samples: int | None, tokens: int | None) -> None:
        """`gpuwhy.step()`."""
        now = time.monotonic_ns()
        if samples is not None or tokens is not None:
            self.journal.record(kinds.FORWARD, 0, kinds.USER, get_ident(), now, now, _whole(samples), _whole(tokens))
        self.boundary(kinds.USER, None, now)

    def boundary(self, anchor: int, which: object, now: int) -> None:
        """A step begins here, if nothing better than this anchor tells the steps.

        Most steps cost no more than the noting of their time: all else waits until it is `due`.
        """
        if id(which) != self.anchored or anchor != self.anchor:
            if anchor < self.anchor or (anchor == self.anchor and not self._is_gone()):
                return
            self._take(anchor, which)
        self.journal.steps.append(now)
        if now >= self.due:
            self._tend(now)

    def _is_gone(self) -> bool:
        """Whether what told the steps so far tells them no more, and another of its kind has to."""
        if self.others_at != self.journal.stepped:
            self.others_at, self.others = self.journal.stepped, 0
        self.others += 1
        return self.others > MOST_OTHERS or self.alive() is None

    def _take(self, anchor: int, which: object) -> None:
        """From here on steps are told by a better anchor, or by another of its kind."""
        self.anchored = id(which)
        try:
            self.alive = weakref.ref(which)
        except TypeError:
            self.alive = _something
        if anchor != self.anchor:
            self.anchor, self.first, self.thread = anchor, self.journal.stepped, get_ident()
            name = type(which).__name__ if which is not None else None
            thread, tid = self.thread & 0xFFFFFFFF, threading.get_native_id()
            self.journal.note("anchor", kind=anchor, what=name, step=self.first, thread=thread, tid=tid)
            self.profiling.restart()
            self.due = 0

    def _tend(self, now: int) -> None:
        """What is not done at every step."""
        number = self.journal.stepped - 1
        was_idle = self.profiling.idle
        self.device.mark(number)
        self.profiling.boundary(number, number - self.first, now)
        if self.control is not None and self.control[0] != self.requests:
            self.requests = self.control[0]
            self.profiling.ask()
        if now - self.journal.written > EVERY_NS:
            if now - self.looked > LOOK_EVERY_NS:
                self.looked = now
                self.threads.look()
            if now - self.asked > MEMORY_EVERY_NS:
                self.asked = now
                self.note_memory()
            self.journal.flush(now)
        # While there is a profile, and at the step after it, every step is measured by itself.
        self.due = now + TEND_NS if was_idle and self.profiling.idle else 0

    def note_memory(self) -> None:
        """What torch's allocator counts."""
        counted = self.device.memory()
        if counted:
            self.journal.note("memory", **counted)

    def finish(self) -> None:
        """The program ends in an orderly way."""
        self.profiling.give_up()
        self.device.drain()
        self.note_memory()
        now = time.monotonic_ns()
        self.journal.note("end", steps=self.journal.stepped)
        self.journal.flush(now)


def _nothing() -> object:
    return None


def _something() -> object:
    return True


def _whole(value: int | None) -> int:
    return -1 if value is None else int(value)


def _own(error: BaseException) -> bool:
    """Whether an exception comes from the probe, or from what it called in torch, and not from a signal handler of the
    program that ran meanwhile.
    """
    torch = sys.modules.get("torch")
    homes = [HERE, os.path.dirname(os.__file__)]
    if torch is not None and getattr(torch, "__file__", None):
        homes.append(os.path.dirname(str(torch.__file__)))
    site = os.sep + "site-packages" + os.sep
    for frame, _ in traceback.walk_tb(error.__traceback__):
        file = os.path.abspath(frame.f_code.co_filename)
        if file.startswith(homes[1]) and site in file and not any(file.startswith(home) for home in homes[2:]):
            return file.startswith(HERE)
        if not any(file.startswith(home) for home in homes) and not file.startswith("<"):
            return False
    return True


def _options(folder: str) -> dict[str, Any]:
    try:
        with open(os.path.join(folder, "options.json"), encoding="utf-8") as file:
            found = json.load(file)
        return found if isinstance(found, dict) else {}
    except (OSError, ValueError):
        return {}


def _control(folder: str) -> memoryview | None:
    """A number that `gpuwhy run` raises to ask for another profile."""
    try:
        with open(os.path.join(folder, "control"), "rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)).cast("Q")
    except (OSError, ValueError):
        return None
