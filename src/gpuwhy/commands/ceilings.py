"""`gpuwhy ceilings`: measure what a GPU can really reach, keep it, and show what is kept or published."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuwhy.commands.options import Color
from gpuwhy.errors import GpuwhyError

if TYPE_CHECKING:
    from rich.console import Console

    from gpuwhy.roofline.ceilings import Ceilings
    from gpuwhy.roofline.measure_matmul import Progress

Lines = list[tuple[str, ...]]

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


# ---- Text ----


def _emit(
    known: Ceilings | list[Ceilings],
    as_json: bool,
    output: str | None,
    color: bool | None,
    with_published: bool = False,
) -> None:
    from gpuwhy.commands.output import write
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
        _render(one, console)
        if with_published:
            _render_published(one, console)
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


def _render(known: Ceilings, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    from gpuwhy.reports.words import clean
    from gpuwhy.roofline import published

    row = published.find(known.device, known.sm_count)
    details = known.details
    about = [
        clean(known.device),
        f"{known.sm_count} SMs" if known.sm_count else "",
        details.capability or "" if details else "",
    ]
    console.print(Text(" · ".join(filter(None, about)), style="bold"))
    console.print(Text(clean(known.source), style="dim"))
    table = Table(box=None, show_header=False, padding=(0, 3, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(style="dim")
    rows = _measured_rows(known, row) if details else _published_rows(known)
    for title, lines in rows:
        if lines:
            table.add_row("")
            table.add_row(Text(title, style="bold"))
        for line in lines:
            table.add_row(*(Text(clean(part)) for part in line))
    console.print(table)
    for note in details.notes if details else []:
        console.print(Text(f"note: {clean(note)}", style="yellow"))


def _render_published(known: Ceilings, console: Console) -> None:
    """The published row of a device, whether or not its ceilings were measured, and where each number comes from."""
    from rich.text import Text

    from gpuwhy.reports.words import clean
    from gpuwhy.roofline import published
    from gpuwhy.roofline.ceilings import from_published

    row = published.find(known.device, known.sm_count)
    console.print()
    if row is None:
        console.print(Text("nothing is published of it in gpuwhy's table", style="dim"))
        return
    if known.how == "measured":
        _render(from_published(row, known.device), console)
        console.print()
    console.print(Text("sources", style="bold"))
    for field, text in row.sources.items():
        console.print(Text(f"  {'' if field == 'row' else field + ': '}{clean(text)}"), soft_wrap=True)


def _published_rows(known: Ceilings) -> Iterator[tuple[str, Lines]]:
    yield "matrix products", [(f"  {key}", _flops(key, peak)) for key, peak in known.flops.items()]
    cache: Lines = [("  second-level cache", f"{known.l2_bytes / 2**20:.0f} MiB")] if known.l2_bytes else []
    yield "memory", [("  bandwidth", _rate(known.dram_bytes_per_s)), *cache]


def _measured_rows(known: Ceilings, row: Any) -> Iterator[tuple[str, Lines]]:
    """Sections of lines: what, the median, and what it is to be seen against."""
    details = known.details
    if details is None:
        return
    best: Lines = []
    for precision, reached in known.flops.items():
        of = [product for product in details.matmul if product.precision == precision]
        size = f" ({max(of, key=lambda product: product.flops_per_s.mid).size})" if of else ""
        share = _of_published(precision, reached, row.flops if row else {})
        best.append((f"  {precision}{size}", _flops(precision, reached), share))
    if details.sustained:
        rate = details.sustained.flops_per_s.mid
        best.append((f"  {details.sustained.precision}, without rests", _flops(details.sustained.precision, rate), ""))
    yield "matrix products", best
    dram, l2 = details.dram, details.l2
    memory = _figures([("read", dram.read), ("write", dram.write), ("copy, read + written", dram.copy)], _rate)
    if row and memory:
        memory = [(*memory[0][:2], f"of the published {_rate(row.dram_bytes_per_s)}"), *memory[1:]]
    cache = f"{known.l2_bytes / 2**20:.0f} MiB" if known.l2_bytes else ""
    yield "memory", memory + ([("  second-level cache, read", _rate(l2.read.mid), cache)] if l2 else [])
    links = details.links
    yield (
        "host",
        _figures(
            [
                ("copies in, pinned", links.h2d_pinned),
                ("copies in, pageable", links.h2d_pageable),
                ("copies out, pinned", links.d2h_pinned),
                ("copies out, pageable", links.d2h_pageable),
            ],
            _rate,
        ),
    )
    launch = details.launch
    yield (
        "launches",
        _figures(
            [
                ("host, an operator", launch.eager_ns),
                ("device, a graph's node", launch.graph_node_ns),
                ("shortest kernel", launch.kernel_ns),
            ],
            _time,
        ),
    )
    others: Lines = [
        (f"  {peer.source} to {peer.target}", _rate(peer.bytes_per_s.mid), "" if peer.direct else "through the host")
        for peer in details.peers or []
    ]
    if details.nccl:
        others.append(("  all-reduce, bus", _rate(details.nccl.bus_bytes_per_s.mid), f"{details.nccl.devices} devices"))
    yield "other devices", others
    clocks = details.clocks_mhz
    held = f"held down by: {', '.join(clocks.throttled)}" if clocks.throttled else ""
    seen: Lines = [
        (f"  {what}", f"{clock.median:.0f} MHz", "; ".join(filter(None, [_span(clock), why])))
        for what, clock, why in (("SM", clocks.sm, held), ("memory", clocks.memory, ""))
        if clock
    ]
    yield "clocks while measuring", seen


def _span(clock: Any) -> str:
    return "" if clock.min == clock.max else f"{clock.min:.0f} to {clock.max:.0f}"


def _figures(figures: list[tuple[str, Any]], unit: Any) -> Lines:
    """Lines of what is known, with the spread where it is over 1 %."""
    lines: Lines = []
    for what, figure in figures:
        if figure is not None:
            wide = figure.high - figure.low > 0.01 * figure.mid
            lines.append((f"  {what}", unit(figure.mid), f"{unit(figure.low)} to {unit(figure.high)}" if wide else ""))
    return lines


def _of_published(precision: str, reached: float, peaks: Any) -> str:
    # A product in fp64 runs on the matrix units where there are some for it.
    peak = max((peaks[key] for key in (precision, f"{precision}_tensor") if key in peaks), default=None)
    return f"{100 * reached / peak:.0f} % of the published {_flops(precision, peak)}" if peak else ""


def _flops(precision: str, rate: float) -> str:
    unit = "OP/s" if precision.startswith("int") else "FLOP/s"
    return f"{_digits(rate / 1e12)} T{unit}" if rate >= 1e11 else f"{_digits(rate / 1e9)} G{unit}"


def _rate(rate: float) -> str:
    return f"{_digits(rate / 1e12)} TB/s" if rate >= 1e12 else f"{_digits(rate / 1e9)} GB/s"


def _time(ns: float) -> str:
    return f"{_digits(ns / 1e3)} µs"


def _digits(value: float) -> str:
    """Three digits, and never an exponent."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


ceilings.__doc__ = f"{ceilings.__doc__}\n\n\b\n" + EPILOG.replace("\n\n", "\n") if ceilings.__doc__ else EPILOG
