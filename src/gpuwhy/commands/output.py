"""Where reports go (terminal, file, JSON), and the progress of long loads on stderr."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from gpuwhy.errors import EXPLAINED, LEDGER_WITHHELD, GpuwhyError

if TYPE_CHECKING:
    from rich.console import Console

    from gpuwhy.explained import Explained
    from gpuwhy.reports.compare_model import Comparison
    from gpuwhy.reports.model import Report
    from gpuwhy.sources.load import Progress

PATIENCE_S = 1.0
"""A load that takes longer shows its progress."""
FILE_WIDTH = 100
"""Columns of a text report that goes to a file or a pipe, unless COLUMNS says otherwise."""


@dataclass(frozen=True)
class Wanted:
    """Which reports are wanted, and where: paths, `-` for standard output."""

    as_json: bool = False
    output: str | None = None
    html: str | None = None
    perfetto: str | None = None
    color: bool | None = None
    redact: bool = False


def emit(explained: Explained, wanted: Wanted) -> None:
    """Write the reports, and leave with exit status 3 if the ledger must not be trusted."""
    sound = explained.report.sound
    if wanted.redact:
        from gpuwhy.redact.redact import redacted

        explained = redacted(explained)
    report = explained.report
    if wanted.perfetto is not None:
        from gpuwhy.reports.perfetto import write as write_perfetto

        write_perfetto(explained, wanted.perfetto)
    _written(
        report,
        lambda: _page(explained),
        lambda stream, is_file: text_for(report, stream, wanted.color, is_file),
        wanted,
    )
    _leave(sound)


def _page(explained: Explained) -> str:
    from gpuwhy.reports.html.page import render

    return render(explained)


def emit_comparison(found: Comparison, wanted: Wanted) -> None:
    """Write a comparison."""

    def page() -> str:
        from gpuwhy.reports.html.comparison import render

        return render(found)

    def text(stream: TextIO | None, is_file: bool) -> str:
        from gpuwhy.reports.text_compare import render

        return _printed(lambda console: render(found, console), stream, wanted.color, is_file)

    _written(found, page, text, wanted)


def _written(
    value: Report | Comparison,
    page: Callable[[], str],
    text: Callable[[TextIO | None, bool], str],
    wanted: Wanted,
) -> None:
    """The page, if one is wanted, then JSON or text; standard output has one of them."""
    if wanted.html is not None:
        _reconfigure(encoding="utf-8")  # which the page says that it is in
        write(page(), wanted.html)
        if wanted.html == "-" and wanted.output in (None, "-"):
            return
    if wanted.as_json:
        from gpuwhy.reports.json import encode

        _reconfigure(encoding="utf-8")  # JSON is, whatever the terminal's encoding
        write(encode(value), wanted.output)
    else:
        _reconfigure(errors="replace")  # a terminal without UTF-8 still gets its report
        is_file = wanted.output not in (None, "-")
        write(text(None if is_file else sys.stdout, is_file), wanted.output)


def _leave(sound: bool) -> None:
    import typer

    status = EXPLAINED if sound else LEDGER_WITHHELD
    if status:
        raise typer.Exit(status)


def write(text: str, output: str | None = None) -> None:
    """Write to a file, or to standard output. A reader that has gone (`| head`) wants no more, and that is no error."""
    name = "standard output" if output in (None, "-") else str(output)
    try:
        if output is None or output == "-":
            if sys.stdout is None:
                raise GpuwhyError("standard output is closed", hint="name a file with --output")
            sys.stdout.write(text)
            sys.stdout.flush()
            return
        with open(output, "w", encoding="utf-8") as file:
            file.write(text)
    except BrokenPipeError:
        # What is still in Python's buffer goes nowhere, without a complaint when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise GpuwhyError(f"{name}: cannot write: {error.strerror or error}") from None


def text_for(report: Report, stream: TextIO | None, color: bool | None, is_file: bool = False) -> str:
    """The report as text, as wide and as coloured as where it goes."""
    from gpuwhy.reports.text import render

    return _printed(lambda console: render(report, console), stream, color, is_file)


def _printed(render: Callable[[Console], None], stream: TextIO | None, color: bool | None, is_file: bool) -> str:
    import io

    from rich.console import Console

    is_terminal = stream is not None and stream.isatty()
    page = io.StringIO()
    console = Console(
        file=page,
        width=None if is_terminal or os.environ.get("COLUMNS", "").isdigit() else FILE_WIDTH,
        force_terminal=color if color is not None else is_terminal or (False if is_file else None),
        no_color=True if color is False else None,
    )
    render(console)
    return page.getvalue()


def _reconfigure(**options: str) -> None:
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(**options)


def same_file(one: str, other: str) -> bool:
    """Whether two paths are one file that is there."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def spare(read: Sequence[str], *written: str | None) -> None:
    """Refuse to write over an input, into the folder of a run that is one, or two reports into one file."""
    files = [path for path in written if path is not None and path != "-"]
    for path in files:
        for source in read:
            folder = os.path.isdir(source) and within_folder(path, source)
            if source != "-" and (folder or same_file(path, source)):
                raise GpuwhyError(f"{path}: is one of the inputs, or a part of one, and would be lost")
    real = [os.path.realpath(path) for path in files if not os.path.exists(path) or os.path.isfile(path)]
    if len(set(real)) < len(real):
        raise GpuwhyError("two reports cannot go to one file")


def within_folder(path: str, folder: str) -> bool:
    """Whether a path lies in a folder."""
    return os.path.realpath(path).startswith(os.path.join(os.path.realpath(folder), ""))


@contextmanager
def progress() -> Iterator[Progress | None]:
    """A progress bar on stderr, shown only on a terminal and only if the load takes longer than a moment."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    bar = _Bar()
    try:
        yield bar.update
    finally:
        bar.stop()


class _Bar:
    """Rich's bar, made (and imported) only when it is needed."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.bar: Any = None
        self.file, self.task = "", 0

    def update(self, file: str, done: int, size: int | None) -> None:
        """Show that `done` of `size` bytes of a file are read."""
        from gpuwhy.reports.words import clean

        if self.bar is None:
            if time.monotonic() - self.began < PATIENCE_S:
                return
            self._start()
        if file != self.file:
            if self.file:
                self.bar.remove_task(self.task)
            self.file, self.task = file, self.bar.add_task(clean(file), total=size)
        self.bar.update(self.task, completed=done)

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        self.bar = Progress(
            TextColumn("reading {task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self.bar.start()

    def stop(self) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.stop()
