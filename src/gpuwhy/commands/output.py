"""Where reports go (terminal, file, JSON), and the progress of long loads on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gpuwhy.errors import EXPLAINED, LEDGER_WITHHELD, GpuwhyError

if TYPE_CHECKING:
    from gpuwhy.reports.model import Report
    from gpuwhy.sources.load import Progress

PATIENCE_S = 1.0
"""A load that takes longer shows its progress."""
FILE_WIDTH = 100
"""Columns of a text report that goes to a file or a pipe."""


def emit(report: Report, *, as_json: bool, output: str | None, color: bool | None) -> None:
    """Write the report and leave with exit status 3 if its ledger must not be trusted."""
    import typer

    if as_json:
        from gpuwhy.reports.json import encode

        _write(encode(report), output)
    else:
        _write_text(report, output, color)
    status = EXPLAINED if report.sound else LEDGER_WITHHELD
    if status:
        raise typer.Exit(status)


def _write(text: str, output: str | None) -> None:
    if output is None or output == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        with open(output, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise GpuwhyError(f"{output}: cannot write: {error.strerror or error}") from None


def _write_text(report: Report, output: str | None, color: bool | None) -> None:
    import io

    from rich.console import Console

    from gpuwhy.reports.text import render

    if output is not None and output != "-":
        page = io.StringIO()
        render(report, Console(file=page, width=FILE_WIDTH, force_terminal=bool(color), no_color=not color))
        _write(page.getvalue(), output)
        return
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal without UTF-8 still gets its report
    width = None if sys.stdout.isatty() else FILE_WIDTH
    render(report, Console(width=width, force_terminal=color, no_color=color is False or None))


@contextmanager
def progress() -> Iterator[Progress | None]:
    """A progress bar on stderr, shown only on a terminal and only if the load takes longer than a moment."""
    if not sys.stderr.isatty():
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
        if self.bar is None:
            if time.monotonic() - self.began < PATIENCE_S:
                return
            self._start()
        if file != self.file:
            if self.file:
                self.bar.remove_task(self.task)
            self.file, self.task = file, self.bar.add_task(file, total=size)
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
