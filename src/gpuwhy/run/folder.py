"""The folder of a run, `.gpuwhy/NAME/`: what lies where in it.

run.json         the command, when it began and ended, how it ended
options.json     what the probe shall do
control          a number: how many profiles were asked for
counters.jsonl   what the devices and processes did, sampled from outside (`watch.py`)
processes/       the journals of the watched processes: records and notes
profiles/        what torch's profiler recorded
socket           answers who asks for another profile, while the program runs
problems.txt     what went wrong before a probe could say it in its journal
report.json      the report
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from gpuwhy.errors import GpuwhyError
from gpuwhy.run.values import Whole

HOME = ".gpuwhy"
CHUNK = 1 << 20
KEPT = 3
"""Profiles of a process that are kept, the newest."""

LONGEST_ADDRESS = 100
"""Bytes of a Unix socket's address that every system takes (Linux 107, macOS 103)."""


class RunFile(msgspec.Struct, kw_only=True):
    """`run.json`."""

    version: str
    command: list[str]
    folder: str
    begun_ns: Whole
    """CLOCK_MONOTONIC, as all times of a run."""
    begun_time_ns: Whole
    """The same on the clock of the day."""
    ended_ns: Whole | None = None
    exit_status: Whole | None = None
    """As a shell sees it; of a program that a signal ended, 128 + its number."""
    signal: Whole | None = None
    pid: Whole | None = None
    problem: str | None = None
    """What went wrong with the counters."""


def make(command: list[str], options: dict[str, Any], where: str | None = None) -> tuple[Path, RunFile]:
    """A new folder, and its run.json. Raises GpuwhyError if it cannot be made."""
    from gpuwhy.version import __version__

    home = Path(where) if where else Path(HOME)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", _program(command))[:40] or "run"
    try:
        home.mkdir(parents=True, exist_ok=True)
        ignore = home / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        folder = _fresh(home, f"{stamp}-{name}").resolve()
        for part in ("processes", "profiles"):
            (folder / part).mkdir()
        (folder / "control").write_bytes(bytes(8))
        (folder / "options.json").write_bytes(msgspec.json.encode(options))
        run = RunFile(
            version=__version__,
            command=command,
            folder=str(folder),
            begun_ns=time.monotonic_ns(),
            begun_time_ns=time.time_ns(),
        )
        write(folder, run)
    except OSError as error:
        raise GpuwhyError(
            f"{home}: a folder for the run cannot be made: {error.strerror or error}", hint="name another with --folder"
        ) from None
    return folder, run


def _program(command: list[str]) -> str:
    """What says most about a command: its script or module, else the program."""
    place = command.index("-m") + 1 if "-m" in command else len(command)
    script = next((word for word in command[:place] if word.endswith(".py")), None)
    if script is None and place < len(command):
        return command[place]
    return os.path.splitext(os.path.basename(script or command[0]))[0]


def _fresh(home: Path, name: str) -> Path:
    for number in range(1, 1000):
        folder = home / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            continue
    raise OSError(f"{name} is there a thousand times")


def write(folder: Path, run: RunFile) -> None:
    """Write run.json, whole or not at all."""
    part = folder / "run.json.part"
    part.write_bytes(msgspec.json.encode(run))
    part.replace(folder / "run.json")


def compress(folder: Path) -> None:
    """Compress the profiles of a run that has ended; one that cannot be is left as it is."""
    import shutil

    from isal import igzip

    gzip: Any = igzip  # which has no types
    for path in sorted((folder / "profiles").glob("*.json")):
        part = path.with_name(f"{path.name}.part")
        try:
            with path.open("rb") as whole, gzip.open(part, "wb", compresslevel=1) as packed:
                shutil.copyfileobj(whole, packed, CHUNK)
            part.replace(path.with_name(f"{path.name}.gz"))
            path.unlink()
        except OSError:
            part.unlink(missing_ok=True)


def read(folder: Path) -> RunFile:
    """Read run.json. Raises GpuwhyError where this is no folder of a run."""
    if folder.is_dir() and not (folder / "run.json").exists():
        raise GpuwhyError(
            f"{folder} is a directory, but not the folder of a run",
            hint=f"name its files, such as {folder}/*.json.gz, or a run: .gpuwhy/…",
        )
    try:
        run = msgspec.json.decode((folder / "run.json").read_bytes(), type=RunFile)
    except (OSError, ValueError, RecursionError) as error:  # ValueError: msgspec's errors are such
        raise GpuwhyError(
            f"{folder}: not the folder of a run: {error}", hint="gpuwhy run makes them: .gpuwhy/…"
        ) from None
    if run.ended_ns is not None and run.ended_ns < run.begun_ns:
        raise GpuwhyError(f"{folder}: the run ended before it began: run.json is damaged")
    return run


@contextmanager
def socket_address(folder: Path) -> Iterator[str]:
    """The address of a run's socket, for `bind` and `connect`; a folder may have a longer path than an address takes.

    Raises OSError if the folder is not there.
    """
    plain = str(folder / "socket")
    if len(os.fsencode(plain)) <= LONGEST_ADDRESS:
        yield plain
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{opened}/socket"  # the same folder, named shortly (Linux)
    finally:
        os.close(opened)
