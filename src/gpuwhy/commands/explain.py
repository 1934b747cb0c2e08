"""`gpuwhy explain`: where the time of each GPU went, from PyTorch profiles or the folder of a run."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Literal

import typer

from gpuwhy.commands.options import AsJson, Color, Html, Output, Redact, with_epilog
from gpuwhy.errors import GpuwhyError

EPILOG = """Examples:

  gpuwhy explain profile.pt.trace.json.gz

  gpuwhy explain rank*.json.gz --device 0        several files: each is a rank

  gpuwhy explain profile.json --steps 4-6 --top 10

  gpuwhy explain profile.json --window 120ms-180ms

  gpuwhy explain profile.json --step-time 34.4ms  what a step takes unprofiled

  gpuwhy explain profile.json --what-if input,sync=0.5,precision=bf16

  gpuwhy explain .gpuwhy/20261130-184127-train    what gpuwhy run has kept

  gpuwhy explain profile.json --html report.html  one page with pictures

  gpuwhy explain profile.json --perfetto more.json.gz
                                                  more tracks for Perfetto

  zcat profile.json.gz | gpuwhy explain - --json | jq .verdict.text

Exit status: 0 explained, 2 unusable input,
3 the ledger is not to be trusted (the report says why)."""

UNITS = {"": 10**6, "ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9}
GREEK_MU = "\N{GREEK SMALL LETTER MU}"
"""Another sign than the micro sign, and as good."""
STEP_TIME = re.compile(r"((?:\d{1,12}(?:\.\d{0,30})?|\.\d{1,30})(?:e[+-]?\d{1,2})?)\s*(ns|us|µs|ms|s)")


def explain(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="PyTorch profiles (.json, .json.gz), each a rank; - is standard input. Or the folder of a run.",
        ),
    ],
    steps: Annotated[
        str | None,
        typer.Option("--steps", metavar="A-B", help="Judge only these steps, as numbered in the file."),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            metavar="START-END",
            help="Judge only this time since the first event, e.g. 120ms-180ms (ms if no unit).",
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Judge the whole recording instead of the steady-state steps.")
    ] = False,
    device: Annotated[int | None, typer.Option("--device", metavar="N", help="Judge only this device.")] = None,
    top: Annotated[
        int,
        typer.Option("--top", metavar="N", min=0, help="Host calls or kernels to list under each account."),
    ] = 3,
    samples: Annotated[
        int | None,
        typer.Option("--samples", metavar="N", min=1, help="Samples (or tokens) of a step: tells work a sample."),
    ] = None,
    step_time: Annotated[
        str | None,
        typer.Option(
            "--step-time",
            metavar="TIME",
            help="What a step takes without a profiler, e.g. 34.4ms: gains are predicted more closely.",
        ),
    ] = None,
    what_if: Annotated[
        str | None,
        typer.Option(
            "--what-if",
            metavar="CHANGES",
            help="Replay these changes together, e.g. input,sync=0.5,precision=bf16 (docs/whatif.md lists them).",
        ),
    ] = None,
    as_json: AsJson = False,
    output: Output = None,
    html: Html = None,
    perfetto: Annotated[
        str | None,
        typer.Option(
            "--perfetto",
            metavar="FILE",
            help="Also write the profile itself with tracks added (accounts, gaps, findings), for ui.perfetto.dev.",
        ),
    ] = None,
    redact: Redact = False,
    save_timeline: Annotated[
        str | None,
        typer.Option(
            "--save-timeline",
            metavar="FILE",
            help="Also keep what was read in a compact file, to explain it again faster.",
        ),
    ] = None,
    color: Color = None,
) -> None:
    """Say where each GPU's time went: a ledger in which every nanosecond has one cause."""
    chosen = _selection(steps, window, everything)
    seconds = _step_time(step_time)
    from gpuwhy.commands.output import Wanted, emit, progress, spare

    spare(files, output, html, perfetto, save_timeline)
    from gpuwhy.api import explained, load, selection
    from gpuwhy.findings.questions import parse

    judged = selection(*chosen)
    wanted = Wanted(as_json, output, html, perfetto, color, redact)
    if what_if is not None:
        parse(what_if)  # a slip is told before anything is read
    if len(files) == 1 and os.path.isdir(files[0]):
        if save_timeline:
            raise GpuwhyError("--save-timeline: a run has a folder, and its profiles are in it")
        from gpuwhy.run.analyse import Asked, explain_run

        asked = Asked(judged, device, top, samples, seconds, what_if)
        with progress() as on_progress:
            run = explain_run(Path(files[0]), asked, on_progress)
        emit(run, wanted)
        return
    with progress() as on_progress:
        timeline = load(*files, on_progress=on_progress)
    if save_timeline:
        timeline.save(save_timeline)
    found = explained(timeline, judged, device, top, samples, seconds, what_if)
    emit(found, wanted)


def _selection(
    steps: str | None, window: str | None, everything: bool
) -> tuple[tuple[int, int] | None, Literal["all"] | tuple[int, int] | None]:
    """The arguments of `gpuwhy.explain` that the options mean."""
    if sum((steps is not None, window is not None, everything)) > 1:
        raise GpuwhyError("--steps, --window and --all exclude each other")
    if steps is not None:
        match = re.fullmatch(r"\s*(\d{1,18})\s*(?:-\s*(\d{1,18}))?\s*", steps)
        if not match:
            raise GpuwhyError(f"--steps {steps}: not a range of steps", hint="for example --steps 4-8")
        return (int(match[1]), int(match[2] or match[1])), None
    if window is not None:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(\w*)\s*-\s*(\d+(?:\.\d+)?)\s*(\w*)\s*", window)
        if not match or match[4] not in UNITS or (match[2] or match[4]) not in UNITS:
            raise GpuwhyError(f"--window {window}: not a range of times", hint="for example --window 120ms-180ms")
        start, end = _ns(match[1], match[2] or match[4]), _ns(match[3], match[4])
        if start >= end or end >= 2**62:
            raise GpuwhyError(f"--window {window}: the start must lie before the end")
        return None, (start, end)
    return None, "all" if everything else None


def _step_time(text: str | None) -> float | None:
    """Seconds."""
    if text is None:
        return None
    match = STEP_TIME.fullmatch(text.strip().replace(GREEK_MU, "µ"))
    if not match:
        raise GpuwhyError(f"--step-time {text}: not a time with its unit", hint="for example --step-time 34.4ms")
    return _ns(match[1], match[2]) / 1e9


def _ns(number: str, unit: str) -> int:
    from decimal import Decimal

    return round(Decimal(number) * UNITS[unit])


explain.__doc__ = with_epilog(explain.__doc__, EPILOG)
