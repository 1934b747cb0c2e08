"""What a device can do, for a terminal: a table of its ceilings, and where published ones come from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuwhy.reports.words import clean
from gpuwhy.roofline import published
from gpuwhy.roofline.ceilings import Ceilings, from_published, peak

Lines = list[tuple[str, ...]]


def render(known: Ceilings, console: Console) -> None:
    """Print what a device can do, measured or published."""
    row = published.find(known.device, known.sm_count)
    details = known.details
    about = [
        clean(known.device),
        f"{known.sm_count} SMs" if known.sm_count else "",
        clean(details.capability or "") if details else "",
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


def render_published(known: Ceilings, console: Console) -> None:
    """The published row of a device, whether or not its ceilings were measured, and where each number comes from."""
    row = published.find(known.device, known.sm_count)
    console.print()
    if row is None:
        console.print(Text("nothing is published of it in gpuwhy's table", style="dim"))
        return
    if known.how == "measured":
        render(from_published(row, known.device), console)
        console.print()
    console.print(Text("sources", style="bold"))
    for field, text in row.sources.items():
        console.print(Text(f"  {'' if field == 'row' else field + ': '}{clean(text)}"), soft_wrap=True)


def _published_rows(known: Ceilings) -> Iterator[tuple[str, Lines]]:
    yield "matrix products", [(f"  {key}", _flops(key, rate)) for key, rate in known.flops.items()]
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
    best = peak(peaks, precision)
    return f"{100 * reached / best:.0f} % of the published {_flops(precision, best)}" if best else ""


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
