"""The whole way: paths → timeline → ledgers → report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from gpuwhy.errors import GpuwhyError
from gpuwhy.explained import Explained
from gpuwhy.findings.outlook import outlook
from gpuwhy.findings.questions import parse
from gpuwhy.ledger.partition import balance, basis
from gpuwhy.reports.build import Parts, build
from gpuwhy.reports.model import Report
from gpuwhy.roofline.ceilings import Ceilings, choose
from gpuwhy.roofline.judge import judge
from gpuwhy.roofline.work import work_of_operations
from gpuwhy.sources.load import Progress
from gpuwhy.sources.load import load as _load
from gpuwhy.steps import Selection, device_steps, window
from gpuwhy.timeline import Timeline
from gpuwhy.trust import checks
from gpuwhy.trust.limits import EXPORT_ADVICE

NO_WORK_HINT = "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] while the model runs on the GPU"

SHORTEST_STEP, LONGEST_STEP = 1e-7, 1e5
"""Seconds of one step."""
DEFAULT = Selection()
MOST_SAMPLES = 10**15
"""More samples than a step of any program has; what is larger would not survive a division."""


def load(*paths: str, on_progress: Progress | None = None) -> Timeline:
    """Read profiles, each a rank, into one `Timeline`.

    Args:
        paths: files (`.json`, `.json.gz`, or what `Timeline.save` wrote); `-` is standard input.
        on_progress: called with (file, bytes read, size in bytes or None) every few MB.

    Returns:
        The timeline: times in int64 nanoseconds after `origin_ns`, tables as NumPy columns.

    Raises:
        GpuwhyError: an input cannot be used; the message says why and `hint` what to do.
    """
    return _load([str(path) for path in paths], on_progress)


def explain(
    *paths: str | Timeline,
    steps: tuple[int, int] | None = None,
    window: Literal["all"] | tuple[int, int] | None = None,
    device: int | None = None,
    top: int = 3,
    samples: int | None = None,
    step_time: float | None = None,
    what_if: str | None = None,
    on_progress: Progress | None = None,
) -> Report:
    """Say where the time of each device went, and what each mend would bring.

    Args:
        paths: profiles as for `load`, or one `Timeline`, or the folder of a run.
        steps: judge only these steps, first and last, as numbered in the file.
        window: `"all"` judges the whole recording, `(start_ns, end_ns)` that time, counted from the earliest event;
            None judges the steady-state steps.
        device: judge only this device number (of every rank).
        top: how many host calls or kernels to list under each account.
        samples: samples (or tokens) of one step, if known: the report then tells FLOPs and bytes a sample.
        step_time: seconds that one step takes without a profiler, if known: gains are then predicted more closely.
        what_if: changes to replay together, such as `"input,sync=0.5,precision=bf16"` (docs/whatif.md).
        on_progress: as for `load`.

    Returns:
        The report; for each device its ledger in integer ns, which sums to the window exactly, and findings with the
        predicted gains of their mends (or why none are told).

    Raises:
        GpuwhyError: no input can be used, or nothing ran on a device in the chosen window.
    """
    if len(paths) == 1 and not isinstance(paths[0], Timeline) and os.path.isdir(paths[0]):
        from gpuwhy.run.analyse import Asked, explain_run

        asked = Asked(selection(steps, window), device, top, samples, step_time, what_if)
        return explain_run(Path(paths[0]), asked, on_progress).report
    timelines = [path for path in paths if isinstance(path, Timeline)]
    if timelines and len(paths) > 1:
        raise GpuwhyError("explain takes paths, or one timeline")
    timeline = timelines[0] if timelines else _load([str(path) for path in paths], on_progress)
    return explained(timeline, selection(steps, window), device, top, samples, step_time, what_if).report


def selection(steps: tuple[int, int] | None, window: Literal["all"] | tuple[int, int] | None) -> Selection:
    """The selection that the arguments of `explain` mean."""
    if steps is not None and window is not None:
        raise GpuwhyError("choose steps or a window, not both")
    if steps is not None and steps[0] > steps[1]:
        raise GpuwhyError(f"steps {steps[0]}-{steps[1]}: the first is after the last")
    if window == "all":
        return Selection(everything=True)
    if window is not None and not window[0] < window[1]:
        raise GpuwhyError("the window ends before it starts")
    return Selection(steps=steps, time=window)


def explained(
    timeline: Timeline,
    chosen: Selection = DEFAULT,
    device: int | None = None,
    top: int = 3,
    samples: int | None = None,
    step_time: float | None = None,
    what_if: str | None = None,
) -> Explained:
    """Balance every device of a timeline over the chosen window, replay it, and report."""
    if samples is not None and not 1 <= samples <= MOST_SAMPLES:
        raise GpuwhyError("no step has so many samples", hint="a whole number from 1 on")
    if step_time is not None and not SHORTEST_STEP <= step_time <= LONGEST_STEP:
        raise GpuwhyError("no step takes so much or so little time", hint="without a profiler, such as 34.4 ms")
    questions = parse(what_if) if what_if is not None else []
    if not len(timeline.ops):
        files = ", ".join(source.file for source in timeline.sources)
        damage = "; ".join(source.damage for source in timeline.sources if source.damage)
        if damage:  # a profile's head tells what the host did, its end what the device did
            raise GpuwhyError(f"{files}: no GPU work before the damage: {damage}", hint=EXPORT_ADVICE)
        raise GpuwhyError(f"{files}: no GPU work in it: no kernel, copy or memset was recorded", hint=NO_WORK_HINT)
    numbers = [d for d in range(len(timeline.devices)) if device in (None, timeline.devices[d].number)]
    if not numbers:
        known = ", ".join(str(n) for n in sorted({d.number for d in timeline.devices}))
        raise GpuwhyError(f"device {device} ran nothing in this profile", hint=f"devices that did: {known}")
    windows = {d: found for d in numbers if (found := window(timeline, d, chosen)) is not None}
    if not windows:
        raise _empty_window(timeline, numbers, chosen)
    basis_ = basis(timeline)
    ledgers = [balance(basis_, d, found) for d, found in windows.items()]
    work = work_of_operations(timeline)
    rooflines = [judge(basis_, ledger, work, _ceilings(timeline, ledger.device)) for ledger in ledgers]
    judged = checks(timeline, ledgers)
    if step_time is not None:  # what that check advises to tell
        judged = [replace(one, advice=None) if one.check == "profiler_distortion" else one for one in judged]
    step_time_ns = round(step_time * 1e9) if step_time is not None else None
    outlooks = outlook(basis_, ledgers, rooflines, judged, step_time_ns, questions)
    parts = Parts(basis_, ledgers, rooflines, judged, outlooks)
    return Explained(build(parts, top, samples), parts)


def _ceilings(timeline: Timeline, device: int) -> Ceilings | None:
    return choose(timeline.devices[device].name, timeline.devices[device].sm_count)


def _empty_window(timeline: Timeline, devices: Sequence[int], chosen: Selection) -> GpuwhyError:
    if chosen.steps is not None:
        steps = [s for d in devices if (s := device_steps(timeline, d)) is not None]
        asked = f"{chosen.steps[0]}-{chosen.steps[1]}"
        if not steps:
            return GpuwhyError(f"steps {asked}: no steps were found in this profile", hint="use --window or --all")
        low, high = min(int(s.number[0]) for s in steps), max(int(s.number[-1]) for s in steps)
        return GpuwhyError(f"steps {asked}: not in this profile", hint=f"it has steps {low}-{high}")
    if chosen.time is not None:
        start, end = int(timeline.ops.start.min()), int(timeline.ops.end.max())
        return GpuwhyError(
            "no GPU work in that window",
            hint=f"GPU work was recorded from {start / 1e6:.3f}ms to {end / 1e6:.3f}ms",
        )
    return GpuwhyError("all recorded GPU operations have zero length", hint=NO_WORK_HINT)
