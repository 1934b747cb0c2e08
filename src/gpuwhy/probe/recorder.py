"""When steps begin, and what is done then: the one place that all hooks of the probe report to.

Steps are told by the best anchor there is (`format.ANCHORS`): a loop that is seen only by its model's calls at first is
seen by its optimizer from the first `optimizer.step()` on.
"""

from __future__ import annotations

import json
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
from .garbage import Collections
from .journal import EVERY_NS, TEND_NS, Journal
from .profile import Profiling
from .threads import Threads
from .wrap import hide

HERE = os.path.dirname(os.path.abspath(__file__))
MORE_OTHERS = 20
"""Other optimizers (or models) may step (or be called) so often, on top of twice the most that there ever were, before
one of them tells the loop's turns instead."""
MOST_OTHERS = 1_000
"""… and optimizers so often before the third step: there can be one for each parameter."""
LOOK_EVERY_NS = 500_000_000
"""So often is looked what other threads do, and"""
MEMORY_EVERY_NS = 5_000_000_000
"""so often what torch's allocator counts."""


class Recorder:
    """What is known of the steps of this process. `off`: the probe has failed, or was stopped, and does nothing."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.off = self.forked = False
        self.options = _options(folder)
        self.collections = Collections()
        self.home = get_ident()
        """The thread that imported torch."""
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._rest)

    def reopen(self, folder: str) -> None:
        """Begin anew, in another folder."""
        self.folder, self.options, self.off, self.forked = folder, _options(folder), False, False
        self._begin()
        self.journal.note("begin")

    @property
    def is_watching(self) -> bool:
        """Whether the program is watched, or will be as soon as it does something."""
        return self.forked or not self.off

    def _rest(self) -> None:
        """In the child of a fork nothing is done, and nothing made, until the child does something of interest: what is
        made can make Python collect garbage, and the parent's garbage complains in a child.
        """
        self.forked, self.off = self.is_watching, True

    def _wake(self) -> None:
        """As the child of a fork: what it inherits is its parent's, and so are the files."""
        self.forked = self.off = False
        before = self.profiling
        self._begin()
        self.profiling.inherit(before)
        self.journal.note("begin")
        torch = sys.modules.get("torch")
        if torch is not None:
            self.journal.note("torch", version=str(getattr(torch, "__version__", None)), begun=time.monotonic_ns())

    def _begin(self) -> None:
        """As a new process."""
        self.collections.clear()
        self.journal = Journal(self.folder)
        self.anchor = 0
        self.anchored = 0
        """The `id` of what tells the steps; `alive` says whether that is still there. Nothing is kept alive here."""
        self.alive: Callable[[], object] = _nothing
        self.others = self.others_at = self.others_most = 0
        """How many others of its kind were seen since its last step, at which step that was, and the most before."""
        self.first = 0
        """The number of the first step that this anchor told."""
        self.thread = get_ident()
        self.due = 0
        self.device = DeviceClock(self.journal)
        self.profiling = Profiling(self)
        self.optimizer_expected = self.graphs = False
        self.looked = self.asked = 0
        self.threads = Threads(self.journal)
        self.requests = _requests(self.folder)

    def guard(self, function: Callable[..., object], *arguments: Any) -> None:
        """Run a function of the probe. A failure of its own switches the probe off; the program does not see it."""
        if self.off and not self.forked:
            return
        try:
            if self.forked:
                self._wake()
            function(*arguments)
        except BaseException as error:
            if not isinstance(error, Exception) or not _own(error):
                hide(error)
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
        stepped = self.journal.stepped
        if self.others_at != stepped:
            self.others_most = max(self.others_most, self.others)
            self.others_at, self.others = stepped, 0
        self.others += 1
        is_new = self.anchor == kinds.OPTIMIZER and stepped - self.first <= 2
        most = MOST_OTHERS if is_new else 2 * self.others_most + MORE_OTHERS
        return self.others > most or self.alive() is None

    def _take(self, anchor: int, which: object) -> None:
        """From here on steps are told by a better anchor, or by another of its kind."""
        if _is_loader_worker():
            self.off = True  # what models do there is the making of batches
            return
        if not self.anchor:
            self.collections.clear()
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
            self._note_rank()
            self.others_most = self.others = 0
            self.profiling.restart()
            self.due = 0

    def _note_rank(self) -> None:
        """Which rank this process has taken; one that was started as a rank says so by its environment."""
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            self.journal.note("rank", rank=str(distributed.get_rank()), world_size=str(distributed.get_world_size()))

    def _tend(self, now: int) -> None:
        """What is not done at every step."""
        number = self.journal.stepped - 1
        was_idle = self.profiling.idle
        self.device.mark(number)
        if get_ident() == self.thread:
            self.profiling.boundary(number, number - self.first, now)
        if now - self.journal.written > EVERY_NS:
            self.collections.note(self.journal)
            if now - self.looked > LOOK_EVERY_NS:
                self.looked = now
                self.threads.look()
                self._listen()
            if now - self.asked > MEMORY_EVERY_NS:
                self.asked = now
                self.note_memory()
            self.journal.flush(now)
        # While there is a profile, and at the step after it, every step is measured by itself.
        self.due = now + TEND_NS if was_idle and self.profiling.idle else 0

    def _listen(self) -> None:
        """Whether another profile is asked for."""
        requests = _requests(self.folder)
        if requests != self.requests:
            self.requests = requests
            self.profiling.ask()

    def note_memory(self) -> None:
        """What torch's allocator counts."""
        counted = self.device.memory()
        if counted:
            self.journal.note("memory", **counted)

    def end(self) -> None:
        """The program ends in an orderly way; a forked child that did nothing has nothing to tell."""
        if not self.forked:
            self.guard(self.finish)

    def finish(self) -> None:
        """Write what there is."""
        self.profiling.give_up()
        self.device.drain()
        if self.anchor:
            self.collections.note(self.journal)
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


def _requests(folder: str) -> int:
    """A number that `gpuwhy run` raises to ask for another profile.

    The file is opened anew each time, as those of the journal are.
    """
    try:
        with open(os.path.join(folder, "control"), "rb") as file:
            return int.from_bytes(file.read(8), "little")
    except OSError:
        return 0


def _is_loader_worker() -> bool:
    """Whether this process makes batches for a data loader of another one."""
    worker = sys.modules.get("torch.utils.data._utils.worker")
    return getattr(worker, "_worker_info", None) is not None
