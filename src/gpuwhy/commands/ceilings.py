"""`gpuwhy ceilings`: measure what a GPU can really reach, keep it, and show what is kept or published."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Annotated

import typer

from gpuwhy.commands.options import Color, with_epilog
from gpuwhy.errors import GpuwhyError

if TYPE_CHECKING:
    from rich.console import Console

    from gpuwhy.roofline.ceilings import Ceilings
    from gpuwhy.roofline.measure_matmul import Progress

NOT_KEPT = 3
"""Exit status: measured, but not kept, because others used the device."""

EPILOG = """Examples:

  gpuwhy ceilings                        measure the GPU that torch uses

  gpuwhy ceilings --device 1 --json

  gpuwhy ceilings --show                 what is kept, of all devices

  gpuwhy ceilings --show --name 'NVIDIA A100-SXM4-80GB'

  python -m gpuwhy ceilings              with the Python that has your torch

Exit status: 0 measured and kept, or shown; 2 nothing to
measure or to show; 3 not kept: others used the device."""


def ceilings(
    device: Annotated[
        int | None,
        typer.Option("--device", metavar="N", help="The device, as torch numbers it; by default torch's own."),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Measure nothing; show what is kept.")] = False,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="DEVICE", help="With --show: what a report would use for that device."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Keep the figures even if others used the device meanwhile.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON (docs/ceilings.md).")] = False,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write the figures to a file.")
    ] = None,
    color: Color = None,
) -> None:
    """Measure what this GPU can really reach, in under a minute, and keep it for reports."""
    if name is not None and not show:
        raise GpuwhyError("--name goes with --show", hint=f"gpuwhy ceilings --show --name '{name}'")
    if show and (device is not None or force):
        raise GpuwhyError("--show measures nothing: it takes neither --device nor --force")
    if show:
        _emit(_kept() if name is None else _chosen(name), as_json, output, color, with_published=name is not None)
        return
    measured, busy = _measured(device)
    _emit(measured, as_json, output, color)  # first: it is there even if it cannot be kept
    if busy is not None and not force:
        _say("not kept, since others used the device; measure again when it is free, or with --force")
        raise typer.Exit(NOT_KEPT)
    from gpuwhy.roofline.ceilings import save

    _say(f"kept in {save(measured)}")


def _measured(device: int | None) -> tuple[Ceilings, str | None]:
    """Measure, and how others used the device."""
    try:
        import torch
    except Exception as error:  # not installed, or its libraries are not
        missing = isinstance(error, ModuleNotFoundError) and error.name == "torch"
        problem = "torch is not installed in this Python" if missing else f"torch cannot be imported: {error}"
        raise GpuwhyError(
            f"{problem}, and ceilings are measured with it",
            hint="run it with the Python that has your torch: python -m gpuwhy ceilings",
        ) from None
    del torch
    from gpuwhy.roofline.measure import find_device, in_use, measure

    index = find_device(device)
    busy = in_use(index)
    if busy is not None:
        _say(f"others use device {index} ({busy}): the figures may be too low")
    with _progress() as on_progress:
        return measure(index, on_progress), busy


def _kept() -> list[Ceilings]:
    """What is kept."""
    from gpuwhy.roofline.ceilings import folder, load_all

    kept = load_all(_say)
    if not kept:
        raise GpuwhyError(f"no ceilings are kept in {folder()}", hint="measure this GPU: gpuwhy ceilings")
    return kept


def _chosen(name: str) -> Ceilings:
    """What a report would use for a device."""
    from gpuwhy.roofline.ceilings import choose

    chosen = choose(name, on_note=_say)
    if chosen is None:
        raise GpuwhyError(
            f"nothing is known of a device '{name}'",
            hint="give the name as nvidia-smi or torch prints it, or measure it there: gpuwhy ceilings",
        )
    return chosen


def _say(text: str) -> None:
    from gpuwhy.reports.words import clean

    typer.echo(f"gpuwhy: {clean(text)}", err=True)


@contextmanager
def _progress() -> Iterator[Progress]:
    """One line on stderr, on a terminal only. No thread draws it: that would slow down the host that is measured."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return

    def show(text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    try:
        yield lambda text: show(f"measuring {text} …")
    finally:
        show("")


def _emit(
    known: Ceilings | list[Ceilings],
    as_json: bool,
    output: str | None,
    color: bool | None,
    with_published: bool = False,
) -> None:
    from gpuwhy.commands.output import write
    from gpuwhy.reports.ceilings import render, render_published
    from gpuwhy.roofline.ceilings import encode

    if hasattr(sys.stdout, "reconfigure"):  # JSON is UTF-8; a terminal that is not still gets its table
        sys.stdout.reconfigure(**({"encoding": "utf-8"} if as_json else {"errors": "replace"}))
    if as_json:
        write(encode(known), output)
        return
    page, console = _console(output, color)
    for place, one in enumerate(known if isinstance(known, list) else [known]):
        if place:
            console.print()
        render(one, console)
        if with_published:
            render_published(one, console)
    write("\n".join(line.rstrip() for line in page.getvalue().splitlines()) + "\n", output)


def _console(output: str | None, color: bool | None) -> tuple[StringIO, Console]:
    """A page in memory, as wide and as coloured as where it goes."""
    import os

    from rich.console import Console

    from gpuwhy.commands.output import FILE_WIDTH

    is_terminal = output in (None, "-") and sys.stdout is not None and sys.stdout.isatty()
    page = StringIO()
    return page, Console(
        file=page,
        width=None if is_terminal or os.environ.get("COLUMNS", "").isdigit() else FILE_WIDTH,
        force_terminal=color if color is not None else is_terminal,
        no_color=True if color is False else None,
        highlight=False,
        markup=False,
        emoji=False,
    )


ceilings.__doc__ = with_epilog(ceilings.__doc__, EPILOG)
