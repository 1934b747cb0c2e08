"""`with gpuwhy.record(): …`: what `gpuwhy run` does, for a part of a program that nobody can start otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpuwhy import probe
from gpuwhy.run import folder as folders

ENDING_S = 10.0


@contextmanager
def record(
    folder: str | None = None, *, profile: bool = True, profile_steps: int = 6, report: bool = True
) -> Iterator[Path | None]:
    """Record what the program does within, and explain it on standard error at the end.

    Args:
        folder: where runs are kept, instead of `.gpuwhy`.
        profile: record a few steps with torch's profiler, once they are steady.
        profile_steps: how many.
        report: print the report; the run's folder is kept all the same, for `gpuwhy explain`.

    Yields:
        The folder of the run; None in a program that `gpuwhy run` watches already, where this does nothing.

    Raises:
        GpuwhyError: the folder cannot be made. What goes wrong later does not reach the program.
    """
    if probe.current is not None and not probe.current.off:
        yield None
        return
    options = {"profile": profile, "profile_steps": profile_steps, "at_step": None}
    place, about = folders.make([*sys.orig_argv], options, folder)
    about.pid = os.getpid()
    folders.write(place, about)
    beside = _start([sys.executable, "-m", "gpuwhy.run.beside", str(place), str(about.pid)])
    probe.start(str(place))
    failed = False
    try:
        yield place
    except BaseException:
        failed = True
        raise
    finally:
        probe.stop()
        _end(beside)
        about.ended_ns, about.exit_status = time.monotonic_ns(), int(failed)
        with suppress(OSError):
            folders.write(place, about)
        if report:
            _explain(place)


def _start(command: list[str]) -> subprocess.Popen[bytes] | None:
    """A process of gpuwhy's own that samples counters until its input ends."""
    with suppress(OSError):
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    return None


def _end(beside: subprocess.Popen[bytes] | None) -> None:
    if beside is None:
        return
    with suppress(OSError, subprocess.TimeoutExpired):
        beside.communicate(timeout=ENDING_S)
    beside.kill()


def _explain(place: Path) -> None:
    """The report, made in another process, and written to this one's standard error, wherever that goes."""
    told = subprocess.run(
        [sys.executable, "-m", "gpuwhy", "explain", str(place)], check=False, capture_output=True, text=True
    )
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            sys.stderr.write(told.stdout + told.stderr)
