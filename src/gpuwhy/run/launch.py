"""Starts the program with the probe, waits for it, and is to its caller what the program itself would be.

The program inherits the terminal, standard input, output and error, and the process group. Signals that reach only
gpuwhy are passed on; those that went to the whole group (Ctrl-C, `timeout`) are not sent twice (`witness.py`).
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuwhy.errors import GpuwhyError
from gpuwhy.run.witness import Witness

FOLDER = "GPUWHY_RUN"
"""As in `probe/__init__.py`, which is not imported here."""
LOOK_S = 0.5
"""So often is looked whether the program is there, should a signal have been missed."""
FROM_TERMINAL = 0x80
"""`si_code` of a signal that the kernel sent: the terminal's interrupt goes to the whole foreground group."""
PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGWINCH", "SIGCONT")


def environment(folder: Path) -> dict[str, str]:
    """The environment of the program: the probe's hook comes first on Python's path."""
    from importlib.util import find_spec

    spec = find_spec("gpuwhy.probe")
    if spec is None or spec.origin is None:
        raise GpuwhyError("gpuwhy.probe is not installed as files", hint="install gpuwhy with pip")
    hook = str(Path(spec.origin).parent / "hook")
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, FOLDER: str(folder), "PYTHONPATH": hook + (os.pathsep + path if path else "")}


@contextmanager
def holding_signals() -> Iterator[tuple[set[int], Witness | None]]:
    """Signals that are for the program wait from here on for `wait`: none ends gpuwhy before the program has it.

    Yields which signals were blocked before, and who tells whether one went to the whole process group.
    """
    if not hasattr(signal, "sigtimedwait"):
        yield set(), None
        return
    passed = {getattr(signal, name) for name in PASSED_ON}
    passed = {number for number in passed if signal.getsignal(number) is not signal.SIG_IGN}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, passed | {signal.SIGCHLD})
    try:
        with Witness(passed) as witness:
            yield set(before), witness
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start(command: list[str], folder: Path, mask: set[int]) -> subprocess.Popen[bytes]:
    """Start the program. Raises GpuwhyError (exit code 127 or 126, as a shell) if it cannot be."""

    def unmask() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    try:
        # It inherits what is open, and blocks what gpuwhy's caller does; there is one thread yet.
        return subprocess.Popen(
            command,
            env=environment(folder),
            close_fds=False,
            preexec_fn=unmask if hasattr(signal, "pthread_sigmask") else None,  # noqa: PLW1509
        )
    except FileNotFoundError:
        raise GpuwhyError(f"{command[0]}: not found", hint="gpuwhy run train.py …", exit_code=127) from None
    except (OSError, ValueError) as error:
        raise GpuwhyError(f"{command[0]}: cannot be started: {error}", exit_code=126) from None


def wait(process: subprocess.Popen[bytes], witness: Witness | None) -> int:
    """Wait until the program has ended, and pass signals on; its return code, negative for a signal."""
    if not hasattr(signal, "sigtimedwait"):
        return _wait_simply(process)
    passed = {getattr(signal, name) for name in PASSED_ON} & signal.pthread_sigmask(signal.SIG_BLOCK, [])
    while process.poll() is None:
        got = signal.sigtimedwait(passed | {signal.SIGCHLD}, LOOK_S)
        # One that is stopped and continued while it waits is told of a signal that is none, on some systems.
        if got is None or got.si_signo not in passed or got.si_code == FROM_TERMINAL:
            continue
        if process.poll() is None and not (witness is not None and witness.has_seen(got.si_signo)):
            process.send_signal(got.si_signo)
    return process.returncode


def _wait_simply(process: subprocess.Popen[bytes]) -> int:
    """Where there is no `sigtimedwait` (macOS)."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue


class Ended(SystemExit):
    """The program has ended with this status, which is not gpuwhy's own."""


def leave(returncode: int) -> None:
    """End this process as the program ended: with its exit code, or by its signal."""
    if returncode >= 0:
        raise Ended(returncode)
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    number = -returncode
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    raise Ended(128 + number)
