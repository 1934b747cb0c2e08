"""`gpuwhy profile`: have a program that is running under `gpuwhy run` record another profile."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Annotated

import typer

from gpuwhy.commands.options import with_epilog
from gpuwhy.errors import GpuwhyError

EPILOG = """Examples:

  gpuwhy profile                        the run in .gpuwhy that began last

  gpuwhy profile .gpuwhy/20261130-184127-train

The program records it at its next steps; its signals stay its own.
Then: gpuwhy explain .gpuwhy/RUN explains the run with its newest profile.

Exit status: 0 recorded, 2 no such run, or it has ended,
4 nothing came in time."""

NOT_IN_TIME = 4
LOOK_S = 0.2


def profile(
    run: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="The folder of a run, or nothing for the latest.", show_default=False),
    ] = None,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", min=0, help="How long to wait for the profile.")
    ] = 120.0,
) -> None:
    """Have a running program record another profile."""
    folder = Path(run) if run is not None else _latest()
    before = _profiles(folder)
    _ask(folder)
    until = time.monotonic() + wait
    while not (new := _profiles(folder) - before):
        if time.monotonic() > until:
            raise GpuwhyError(
                f"{folder}: no profile came in {wait:g} s",
                hint="the program may not make steps just now, or have a profiler of its own (gpuwhy explain says so)",
                exit_code=NOT_IN_TIME,
            )
        time.sleep(LOOK_S)
    typer.echo("\n".join(sorted(new)))


def _latest() -> Path:
    from gpuwhy.run.folder import HOME

    folders = sorted(path.parent for path in Path(HOME).glob("*/socket"))
    if not folders:
        raise GpuwhyError(f"no run is under way in {HOME}", hint="name its folder: gpuwhy profile PATH")
    return folders[-1]


def _profiles(folder: Path) -> set[str]:
    return {str(path) for path in (folder / "profiles").glob("*.json")}


def _ask(folder: Path) -> None:
    from gpuwhy.run.folder import read, socket_address

    if read(folder).ended_ns is not None:
        raise GpuwhyError(f"{folder}: this run has ended", hint=f"gpuwhy explain {folder}")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
            asking.settimeout(10)
            with socket_address(folder) as address:
                asking.connect(address)
            if not asking.recv(16):
                raise OSError("no answer")
    except OSError as error:
        raise GpuwhyError(
            f"{folder}: this run cannot be asked: {error.strerror or error}", hint="does it still go on?"
        ) from None


profile.__doc__ = with_epilog(profile.__doc__, EPILOG)
