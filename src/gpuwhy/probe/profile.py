"""A few steps recorded with torch's profiler, once the loop has settled, and again when it is asked for.

The program's own profiler goes first: there can be one at a time, and starting a second is an error in the program.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import TYPE_CHECKING, Any

from . import format as kinds
from .journal import TEND_NS

if TYPE_CHECKING:
    from .recorder import Recorder

STEPS = 6
"""Recorded, and one more whose end is not judged."""
WARM = 2
"""Steps at the beginning of a recording that are not marked: in them the profiler sets itself up."""
SETTLED, LATEST = 10, 30
"""The first profile begins after so many steps at least, once five have been about as long, and at the latest then."""
ALIKE = 1.5
LONGEST_NS = 5_000_000_000
"""A recording ends with the first step after so long: what it holds must fit into memory."""
UNCERTAIN = 200
"""Calls of a model in training mode after which nobody expects an optimizer any more."""
QUIET = {"KINETO_LOG_LEVEL": "6"}
"""In the environment while the probe's profiler is started or stopped. Below that level (read once, by the first
profiler) some versions write to the program's standard error."""
TEAR_DOWN = "TEARDOWN_CUPTI"
"""From the first profile on in the environment as C sees it (`os.environ` stays as it is): a thread of torch's profiler
looks there when the profile has ended, and once more when it is done. What stays of the driver's tracing when it is not
torn down made each later launch slower: a loop of 5.5 ms took 1.24 times as long (benchmarks/run_overhead.py)."""
SAFE_CUDA = 12, 6
"""Before this version, tearing down and tracing again crashes programs with CUDA graphs (torch's profiler says so)."""
OTHERS = "CUDA_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID", "NVTX_INJECTION64_PATH"
"""Set by profilers of the driver, which share one interface with torch's."""

LEAST_FREE = 1 << 28
"""Bytes that must be free where a profile is written. What it cannot write, torch tells on standard error."""

WAITING, WARMING, RECORDING, DONE, ASIDE = range(5)


class Profiling:
    """The profiles of one process."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.state = WAITING
        self.profiler: Any = None
        self.mark: Any = None
        self.begun = self.count = self.first = self.taken = 0
        self.recent: list[int] = []
        self.own = False
        """The probe is making a profiler: it is not the program's."""
        self.waits = self.used = False
        """There is nothing to record for a while; torch's profiler was started in this process."""
        self.seen = self.seen_at = 0
        """The step at which was looked last, and when."""
        options = recorder.options
        self.steps = int(options.get("profile_steps") or STEPS)
        self.at_step = options.get("at_step")
        if not options.get("profile", True):
            self.state = DONE

    def restart(self) -> None:
        """Steps are told in another way from now on."""
        self.recent.clear()

    def ask(self) -> None:
        """Another profile is wanted, as soon as there can be one, also of a program that uses no device."""
        if self.state in (WAITING, DONE) and not (self.taken and self.fragile):
            self.state, self.at_step, self.waits = WAITING, 0, False

    @property
    def idle(self) -> bool:
        """Whether steps are of no interest here, or not each of them."""
        return self.state in (DONE, ASIDE) or self.waits

    def inherit(self, parent: Profiling) -> None:
        """This is a forked process. torch's profiler works by a thread, which a fork does not copy: where the parent
        has started it, there is none here, and a recording that was under way goes on into nothing.
        """
        self.used = parent.used
        if parent.used:
            self.state = ASIDE
        if parent.state in (WARMING, RECORDING):
            torch: Any = sys.modules.get("torch")
            torch._C._autograd._enable_record_function(False)

    def boundary(self, number: int, since: int, now: int) -> None:
        """A step begins, so many after the first that its anchor told."""
        state = self.state
        if state in (DONE, ASIDE):
            return
        if state == WAITING:
            if self._is_time(number, since, now):
                self._prepare(now)
        elif state == WARMING:
            self.count += 1
            if self.count >= WARM:
                self._record(number)
        elif state == RECORDING:
            self.count += 1
            if self.count > self.steps or now - self.begun > LONGEST_NS:
                self._save(now)
            else:
                self._mark(number)

    def _is_time(self, number: int, since: int, now: int) -> bool:
        self.waits = self.at_step is None and self.recorder.device.module() is None
        if self.waits:  # of a program that uses no device, a profile would tell nothing
            self.recent.clear()
            return False
        recent = self.recent
        recent.append(now)
        if len(recent) > 6:
            del recent[0]
        if self.at_step is not None:
            left = int(self.at_step) - WARM - number
            unseen = (number - self.seen) * TEND_NS // max(now - self.seen_at, 1)  # so many pass until the next look
            self.waits = self.seen_at > 0 and left > 2 * unseen + 2
            self.seen, self.seen_at = number, now
            return left <= 0
        if since < SETTLED or (self.recorder.optimizer_expected and self.recorder.anchor < kinds.OPTIMIZER):
            return since > UNCERTAIN
        lengths = [after - before for before, after in zip(recent, recent[1:])]  # noqa: B905, RUF007 – Python 3.8
        return since >= LATEST or (len(lengths) == 5 and max(lengths) <= ALIKE * min(lengths))

    def _prepare(self, now: int) -> None:
        torch: Any = sys.modules.get("torch")
        reason = _taken(torch) or self._hindered()
        if reason:
            self.stand_aside(reason)
            return
        module = self.recorder.device.module()
        if module is None and hasattr(torch, "cuda") and torch.cuda.is_initialized():
            return  # a graph is being captured: at the next step
        from torch.autograd.profiler import profile

        # Not torch.profiler.profile: that imports the compiler, which takes seconds, and warns on standard error.
        device = module.__name__.rpartition(".")[2] if module is not None else None
        with self._ours():
            self.profiler = profile(use_device=device, record_shapes=True, use_kineto=True)
            self.used = True
            self.profiler.__enter__()
        self.state, self.count = WARMING, 0
        self._cost(now)

    def _hindered(self) -> str | None:
        """What else stands against a profile."""
        if get_ident() != self.recorder.home:
            return "the loop is in another thread than the one that imported torch"
        place = os.path.join(self.recorder.folder, "profiles")
        if not os.access(place, os.W_OK):
            return f"{place} cannot be written"
        free = os.statvfs(place) if hasattr(os, "statvfs") else None
        if free is not None and free.f_bavail * free.f_frsize < LEAST_FREE:
            return f"less than {LEAST_FREE >> 20} MiB are free in {place}"
        return None

    def _cost(self, start: int) -> None:
        """What the probe's own profiler has taken just now."""
        self.recorder.journal.record(kinds.PROFILE, 0, 0, 0, start, time.monotonic_ns(), self.state, self.taken)

    @contextmanager
    def _ours(self) -> Iterator[None]:
        """While the probe makes, starts or stops a profiler of its own."""
        added = {name: value for name, value in QUIET.items() if name not in os.environ}
        self.own = True
        os.environ.update(added)
        if TEAR_DOWN not in os.environ and not (self.fragile and self.recorder.graphs):
            os.putenv(TEAR_DOWN, "1")
        try:
            yield
        finally:
            self.own = False
            for name in added:
                os.environ.pop(name, None)

    @property
    def fragile(self) -> bool:
        """Whether this CUDA bears no second profile after the first was torn down."""
        torch: Any = sys.modules.get("torch")
        parts = str(getattr(torch.version, "cuda", None) or "").split(".")
        return parts[0].isdigit() and tuple(int(part) for part in parts[:2] if part.isdigit()) < SAFE_CUDA

    def _record(self, number: int) -> None:
        self.state, self.count, self.first = RECORDING, 0, number
        self.begun = time.monotonic_ns()
        _tell_rank()
        self._mark(number)

    def _mark(self, number: int) -> None:
        """The step's name in the recording, as torch's own profiler gives it."""
        from torch.autograd.profiler import record_function

        self._unmark()
        self.mark = record_function(f"ProfilerStep#{number}")
        self.mark.__enter__()

    def _unmark(self) -> None:
        if self.mark is not None:
            self.mark.__exit__(None, None, None)
            self.mark = None

    def _save(self, now: int) -> None:
        self._unmark()
        self._stop()
        stopped = time.monotonic_ns()
        name = os.path.join("profiles", f"{os.path.basename(self.recorder.journal.path)}.{self.taken}.json")
        path = os.path.join(self.recorder.folder, name)
        profiler, self.profiler = self.profiler, None
        if not os.access(os.path.dirname(path), os.W_OK):
            raise FileNotFoundError(f"{os.path.dirname(path)} cannot be written any more")
        profiler.export_chrome_trace(f"{path}.part")
        os.replace(f"{path}.part", path)
        self._cost(now)
        self.recorder.journal.note(
            "profile", file=name, first=self.first, steps=self.count, begun=self.begun, stopped=stopped
        )
        self.taken += 1
        self.state, self.at_step = DONE, None
        self.recorder.journal.flush(now)

    def _stop(self) -> None:
        self.state = DONE
        with self._ours():
            self.profiler.__exit__(None, None, None)

    def give_up(self) -> None:
        """End a profile that is under way; what it recorded is lost."""
        self._unmark()
        if self.profiler is not None and self.state in (WARMING, RECORDING):
            self._stop()
        self.profiler = None

    def stand_aside(self, reason: str) -> None:
        """The program, or another tool, has a profiler of its own."""
        if self.own or self.state == ASIDE:
            return
        self.give_up()
        self.state = ASIDE
        self.recorder.journal.note("aside", why=reason)


def _tell_rank() -> None:
    """The rank, in the recording, as torch.profiler puts it there."""
    torch: Any = sys.modules.get("torch")
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        told = {
            "backend": distributed.get_backend(),
            "rank": distributed.get_rank(),
            "world_size": distributed.get_world_size(),
        }
        torch.autograd._add_metadata_json("distributedInfo", json.dumps(told))


def _taken(torch: Any) -> str | None:
    """Why there can be no profiler of the probe's."""
    for name in OTHERS:
        if os.environ.get(name):
            return f"another profiler holds the driver's interface ({name} is set)"
    profiler = sys.modules.get("torch.autograd.profiler")
    enabled = getattr(getattr(torch, "_C", None), "_autograd", None)
    is_on = getattr(enabled, "_profiler_enabled", None)
    if getattr(profiler, "_is_profiler_enabled", False) or (is_on is not None and is_on()):
        return "the program's own profiler is on"
    return None
