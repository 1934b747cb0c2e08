"""`gpuwhy run`: run a program unchanged, and say why its GPU is not doing more."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from gpuwhy.commands.options import AsJson, Color, Html, Redact, with_epilog
from gpuwhy.commands.output import Wanted, spare
from gpuwhy.errors import GpuwhyError

if TYPE_CHECKING:
    from gpuwhy.explained import Explained
    from gpuwhy.run.folder import RunFile

EPILOG = """Examples:

  gpuwhy run train.py --lr 3e-4         with the Python that runs gpuwhy

  gpuwhy run -m package.train --lr 3e-4

  gpuwhy run -- torchrun --nproc-per-node 8 train.py     each of its ranks

  gpuwhy run --at-step 1000 --profile-steps 10 train.py

  gpuwhy run --no-profile train.py      counters, steps and input only

  gpuwhy run --html report.html train.py   one page with pictures, too

  gpuwhy run --report-fd 3 train.py 3>report.txt

Options of gpuwhy stand before the script, the script's own behind it.
The program's output, exit status and signals are what they are without it.
The report goes to standard error when the program has ended, and stays in
.gpuwhy/: gpuwhy explain .gpuwhy/RUN prints it again.

Exit status: that of the program; 127 if it cannot be found."""


class RunCommand(TyperCommand):
    """Ends the options at `-m MODULE`, as Python does: what follows is the module's own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As click does, with the `--` that `-m MODULE` implies."""
        takes = {name for one in self.params if not getattr(one, "is_flag", True) for name in one.opts}
        place = 0
        while place < len(args) and args[place].startswith("-") and args[place] not in ("--", "-m"):
            place += 2 if args[place] in takes else 1
        if args[place : place + 1] == ["-m"] and len(args) > place + 1:
            args = [*args[: place + 2], "--", *args[place + 2 :]]
        return super().parse_args(ctx, args)


def run(
    program: Annotated[list[str] | None, typer.Argument(metavar="SCRIPT|COMMAND [ARGS]...", show_default=False)] = None,
    module: Annotated[str | None, typer.Option("-m", metavar="MODULE", help="Run a module, as python -m does.")] = None,
    profile: Annotated[
        bool, typer.Option("--profile/--no-profile", help="Record a few steps with torch's profiler.")
    ] = True,
    profile_steps: Annotated[
        int, typer.Option("--profile-steps", metavar="N", min=2, max=1000, help="How many steps to record.")
    ] = 6,
    at_step: Annotated[
        int | None,
        typer.Option(
            "--at-step", metavar="N", min=0, help="Record from this step on; by default once steps are steady."
        ),
    ] = None,
    again_after: Annotated[
        float,
        typer.Option(
            "--again-after",
            metavar="MINUTES",
            min=0.1,
            help="Record again when throughput has fallen by 10 % from its best, at most this often.",
        ),
    ] = 10.0,
    folder: Annotated[
        str | None, typer.Option("--folder", metavar="DIR", help="Where runs are kept, instead of .gpuwhy.")
    ] = None,
    report_fd: Annotated[
        int | None,
        typer.Option("--report-fd", metavar="N", min=0, help="Write the report to this open file, not to stderr."),
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write the report to a file, not to stderr.")
    ] = None,
    as_json: AsJson = False,
    html: Html = None,
    redact: Redact = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Write no report; gpuwhy explain can, later.")] = False,
    color: Color = None,
) -> None:
    """Run a program, unchanged, and say why its GPU is not doing more."""
    from gpuwhy.run import launch
    from gpuwhy.run.folder import compress, make

    command = _command(program or [], module)
    spare([word for word in command if os.path.isfile(word)], output, html)
    _check_places(output, html, report_fd)
    options: dict[str, Any] = {"profile": profile, "profile_steps": profile_steps, "at_step": at_step}
    place, about = make(command, options, folder)
    try:
        returncode = _watched(command, place, about, 60 * again_after)
    except GpuwhyError:
        _remove(place)
        raise
    compress(place)
    if not quiet:
        _report(place, Wanted(as_json, output, html, color=color, redact=redact), report_fd)
    launch.leave(returncode)


def _command(program: list[str], module: str | None) -> list[str]:
    """What to start."""
    if module is not None:
        return [sys.executable, "-m", module, *program]
    if not program:
        raise GpuwhyError("no program given", hint="gpuwhy run train.py [ARGS]; gpuwhy run --help has more")
    first = program[0]
    if _is_command(program):
        return program
    if not os.path.exists(first):
        raise GpuwhyError(
            f"{first}: no such file, nor a command",
            hint="gpuwhy run train.py …, or gpuwhy run -- command …",
            exit_code=127,
        )
    return [sys.executable, *program]


def _is_command(program: list[str]) -> bool:
    """Whether the words after `run` are a command: `--` stands before it, or it is executable and no Python script."""
    words = sys.argv[1:]
    if "--" in words and words[words.index("--") + 1 :] == program:
        return True
    import shutil

    first = program[0]
    return not first.endswith((".py", ".pyw")) and shutil.which(first) is not None and not os.path.isdir(first)


def _watched(command: list[str], place: Path, about: RunFile, again_s: float) -> int:
    """Start the program, wait for it, and write down how it ended."""
    from gpuwhy.run import launch
    from gpuwhy.run.folder import write
    from gpuwhy.run.supervise import Supervisor

    with launch.holding_signals() as (before, witness):
        process = launch.start(command, place, before)
        about.pid = process.pid
        with suppress(OSError):  # the program goes on, whatever becomes of the folder
            write(place, about)
        with Supervisor(place, process.pid, again_s) as beside:
            returncode = launch.wait(process, witness)
            about.ended_ns = time.monotonic_ns()
    about.problem = beside.problem
    about.exit_status = returncode if returncode >= 0 else 128 - returncode
    about.signal = -returncode if returncode < 0 else None
    with suppress(OSError):
        write(place, about)
    return returncode


def _check_places(output: str | None, html: str | None, number: int | None) -> None:
    """What can be known of where the report shall go, before the program runs for hours."""
    if output is not None and number is not None:
        raise GpuwhyError("--output and --report-fd exclude each other")
    for option, path in (("--output", output), ("--html", html)):
        bad = path is not None and (os.path.isdir(path) or (path == "-" and option == "--html"))
        if path is not None and (bad or not os.access(os.path.dirname(os.path.abspath(path)), os.W_OK)):
            raise GpuwhyError(f"{option} {path}: no file, or its folder is not there or cannot be written")
    if html is not None:
        from gpuwhy.reports.html.sheet import needed

        needed()
    if number is None:
        return
    try:
        os.fstat(number)
    except OSError:
        raise GpuwhyError(
            f"--report-fd {number}: no such open file",
            hint=f"open it in the shell: gpuwhy run --report-fd {number} … {number}>report.txt",
        ) from None


def _report(place: Path, wanted: Wanted, report_fd: int | None) -> None:
    """Explain the run, keep the report, and write it; the program's exit status counts, whatever happens here."""
    from gpuwhy.reports.json import encode
    from gpuwhy.run.analyse import explain_run

    try:
        explained = explain_run(place)
        (place / "report.json").write_text(encode(explained.report), encoding="utf-8")
        if wanted.redact:
            from gpuwhy.redact.redact import redacted

            explained = redacted(explained)
    except Exception as error:  # the program's own status counts
        typer.echo(f"gpuwhy: no report: {error}", err=True)
        return
    _page(explained, wanted.html)
    if wanted.as_json:
        text = encode(explained.report)
    else:
        from gpuwhy.commands.output import text_for

        stream = sys.stderr if wanted.output is None and report_fd is None else None
        text = text_for(explained.report, stream, wanted.color)
    try:
        if wanted.output is not None:
            Path(wanted.output).write_text(text, encoding="utf-8")
        elif report_fd is not None:
            with os.fdopen(os.dup(report_fd), "w", encoding="utf-8", errors="replace") as file:
                file.write(text)
        elif sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()
    except OSError as error:
        typer.echo(f"gpuwhy: the report cannot be written: {error.strerror}; it is kept in {place}", err=True)


def _page(explained: Explained, html: str | None) -> None:
    """Write the page, if one is wanted; the report goes on without it."""
    if html is None:
        return
    from gpuwhy.reports.html.page import render

    try:
        Path(html).write_text(render(explained), encoding="utf-8")
    except Exception as error:
        typer.echo(f"gpuwhy: no page in {html}: {error}", err=True)


def _remove(place: Path) -> None:
    import shutil

    shutil.rmtree(place, ignore_errors=True)


run.__doc__ = with_epilog(run.__doc__, EPILOG)
