"""What a run of the program told, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwhy.reports import model
from gpuwhy.reports.run_model import RunInfo, Throughput
from gpuwhy.reports.text_findings import Line
from gpuwhy.reports.words import ms, number, size
from gpuwhy.run.counters import GpuSummary

LEAST_SHARE = 0.005

PHASES = {
    "start_up/before_python": "until the probe was loaded",
    "start_up/before_torch": "the program's start, before torch",
    "start_up/import_torch": "importing torch",
    "start_up/set_up": "from there to the first step",
    "no_steps": "no steps were seen",
    "not_watched": "nothing was seen of the program",
    "warm_up": "first steps, slower than the rest",
    "steady": "steps",
    "input": "waiting for the data loader",
    "gc": "Python's garbage collection",
    "evaluation": "models in evaluation mode",
    "compile": "compiling",
    "checkpoint": "saving",
    "profile": "gpuwhy's own profiler",
    "spike": "steps of over twice the usual: what they took beyond it",
    "shut_down": "after the last step",
    "other": "anything else",
}


def headline(report: model.Report) -> Iterator[Line]:
    """Real throughput, first of all."""
    run = report.run
    if run is None:
        return
    yield "head", "what it did", ""
    of = run.throughput
    if of is None:
        yield "row", _how(run), ""
        return
    if of.samples_per_s is not None:
        yield "row", "samples a second", number(of.samples_per_s)
        yield "more", f"counted by {of.samples_by}", ""
    if of.tokens_per_s is not None:
        yield "row", "tokens a second", number(of.tokens_per_s)
    yield "row", "steps a second", number(of.steps_per_s)
    if of.by_time:
        low, high = number(min(of.by_time)), number(max(of.by_time))
        yield "more", "over time, in twentieths: the slowest and the fastest", f"{low} and {high}"
    step = of.step_ns
    yield "row", f"ms a step, on the {of.clock}'s clock", ms(step.mean)
    yield "more", "median, 10th to 90th percentile", f"{ms(step.median)}, {ms(step.p10)} to {ms(step.p90)}"
    if of.input_wait is not None:
        yield "row", "of that in the data loader", f"{100 * of.input_wait:.1f} %"
    yield "note", _which(of), ""
    yield "note", _how(run), ""


def _which(of: Throughput) -> str:
    """Which steps these figures are of."""
    apart = [
        f"{of.startup_steps} of start-up" if of.startup_steps else "",
        f"{of.profiled_steps} with gpuwhy's profiler" if of.profiled_steps else "",
    ]
    left = " and ".join(filter(None, apart))
    without = f", without {left}" if left else ""
    return (
        f"{of.steady_steps:,} of {of.steps:,} steps that were timed, told by: {of.steps_by}{without}; pauses between "
        f"steps count, evaluation does not"
    )


def counters(report: model.Report) -> Iterator[Line]:
    """What the utilization counter claimed, and what the hardware did."""
    run = report.run
    if run is None or not run.gpus:
        return
    yield "head", "counters, in the steady steps", f"{'mean':>7} {'10 to 90 %':>12}"
    for gpu in run.gpus:
        who = f"GPU {gpu.index}: " if len(run.gpus) > 1 else ""
        for name, level in (
            ("utilization counter (some kernel ran)", gpu.utilization),
            ("SMs active", gpu.sm),
            ("tensor cores active", gpu.tensor),
            ("memory bandwidth used", gpu.dram),
        ):
            if level is not None:
                spread = f"{100 * level.p10:.0f} to {100 * level.p90:.0f} %"
                yield "row", who + name, f"{100 * level.mean:>5.0f} % {spread:>12}"
        if gpu.sm is None and gpu.utilization is not None:
            yield "note", "this GPU tells no more: whether its multiprocessors work is not known", ""
        yield from _electric(gpu, who)
    if run.memory is not None and run.memory.reserved_peak is not None:
        peak = f"{size(run.memory.allocated_peak or 0)} of {size(run.memory.reserved_peak)} reserved"
        yield "row", "memory of tensors, at most", peak
        if run.memory.retries:
            yield "note", f"the allocator ran out of memory and emptied its cache {run.memory.retries} times", ""


def _electric(gpu: GpuSummary, who: str) -> Iterator[Line]:
    if gpu.power_w is not None:
        limit = f" of {gpu.power_limit_w:.0f}" if gpu.power_limit_w is not None else ""
        clock = f", clock at {100 * gpu.sm_clock:.0f} % of its maximum" if gpu.sm_clock is not None else ""
        yield "row", f"{who}power{clock}", f"{gpu.power_w:.0f}{limit} W"
    for reason, share in (gpu.throttled or {}).items():
        yield "note", f"{who}clocks held down by {reason} in {100 * share:.0f} % of the samples", ""


def _how(run: RunInfo) -> str:
    took = f"{run.wall_ns / 1e9:,.1f} s in all"
    ended = {
        "ended": "",
        "failed": f", ended with status {run.exit_status}",
        "interrupted": ", interrupted",
        "killed": f", killed by signal {run.signal}",
        "running": " so far, still running",
        "unknown": ", how it ended is not known",
    }
    return took + ended[run.ended]


def ledger(report: model.Report) -> Iterator[Line]:
    """The whole run, account by account."""
    run = report.run
    if run is None:
        return
    yield "head", "the whole run", f"{'s':>8} {'of wall':>9}"
    small = 0
    for phase in run.ledger:
        if phase.share < LEAST_SHARE:
            small += phase.ns
            continue
        times = f" ({phase.count:,} ×)" if phase.count is not None else ""
        told = PHASES.get(phase.account, "")
        yield "row", f"{phase.account:<22} {told}{times}", f"{phase.ns / 1e9:>8.2f} {100 * phase.share:>7.1f} %"
    if small:
        yield "row", "smaller", f"{small / 1e9:>8.2f} {100 * small / run.wall_ns:>7.1f} %"
    for one in run.compilations:
        again = f", again because: {one.reason}" if one.reason else ""
        yield "note", f"compiled {one.count} × {one.function} in {one.ns / 1e9:.1f} s{again}", ""
    for item in report.withheld if not report.devices else ():
        yield "note", f"no {item.what}: {item.why}", ""
    for problem in run.problems:
        yield "note", problem, ""
    for process in run.processes:
        for note in process.notes:
            yield "note", f"process {process.pid}: {note}", ""
