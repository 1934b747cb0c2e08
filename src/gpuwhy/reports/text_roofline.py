"""The terminal's part on how well busy time was used: a line under each account, and a section of its own."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwhy.reports import roofline_model as model
from gpuwhy.reports.words import clean, ms, number
from gpuwhy.roofline.judge import LEAST_KNOWN
from gpuwhy.roofline.waste import WORTH

LEAST_BOUND = 0.1
"""Bounds of a smaller part of an account are not told."""
MOST_BOUNDS = 2
LEAST_UNKNOWN = 0.02
BOUNDS = {"unknown": "unknown", "kernel": "far from both"}
"""Of the ceilings of compute and memory."""
MOST_CONCERNED = 3
LONGEST_DIMS = 48


def use_line(use: model.AccountUse) -> str | None:
    """How an account was used, in half a sentence; None where nothing is known."""
    parts = {name: ns / max(use.ns, 1) for name, ns in use.bounds.items()}
    bounds = [name for name in sorted(parts, key=lambda n: -parts[n]) if parts[name] >= LEAST_BOUND][:MOST_BOUNDS]
    if bounds == ["unknown"] or not bounds:
        return None
    labels = {name: BOUNDS.get(name, f"{name}-bound") for name in bounds}
    if len(bounds) > 1:
        told = ", ".join(f"{label} {100 * parts[name]:.0f} %" for name, label in labels.items())
    else:
        told = labels[bounds[0]]
    if "link" in bounds:
        told = f"at {number(use.bytes / use.ns)} GB/s, {told}" if use.bytes else told
    if use.efficiency is None or not use.known_ns:
        return told
    return f"{100 * use.efficiency:.0f} % of what it could reach, {told}"


def section(found: model.RooflineInfo, parts: int, steps: bool) -> Iterator[tuple[str, str, str]]:
    """Lines as (kind, text, figures); `kind` is `head`, `line`, `row`, `told`, `more`, `mend` or `note`."""
    yield "head", "how well the busy time was used", ""
    if found.ceilings is None and found.advice:
        why = "what this device can do is not known" if found.known_share or found.flops else "not known"
        yield "note", f"{why}: {found.advice}", ""
    elif found.advice:
        yield "note", f"{'not' if found.known_share < LEAST_UNKNOWN else 'mostly not'} known: {found.advice}", ""
    yield from _figures(found)
    yield from _unknown(found)
    yield "line", "", ""
    if found.ceilings is not None and (found.wastes or found.known_share >= LEAST_KNOWN):
        yield from _wastes(found, parts, steps)


def _figures(found: model.RooflineInfo) -> Iterator[tuple[str, str, str]]:
    if found.ceilings is None or found.peaks is None:
        return
    if found.known_share < LEAST_KNOWN:
        return
    least = "" if found.known_share > 1 - LEAST_UNKNOWN else "at least "
    if found.efficiency is not None:
        yield (
            "row",
            "of what its work could reach at the ceilings of compute and memory",
            f"{100 * found.efficiency:.1f} %",
        )
    if found.mfu is not None and found.peaks.flops_per_s:
        peak = f"{number(found.peaks.flops_per_s / 1e12)} TFLOP/s in {found.peaks.precision}"
        yield "row", f"MFU: FLOPs that were needed, of {peak}", _part(least, found.mfu)
    if found.mbu is not None:
        peak = f"{number(found.peaks.dram_bytes_per_s / 1e12)} TB/s"
        yield "row", f"MBU: bytes that had to move, of {peak}", _part(least, found.mbu)
    if found.mfu is not None:
        yield "row", "busy time in kernels that use tensor cores", f"{100 * found.tensor_core_share:.1f} %"
    if found.flops_per_step and found.bytes_per_step:
        work = f"{number(found.flops_per_step / 1e12)} TFLOP, {number(found.bytes_per_step / 1e9)} GB"
        sample = ""
        if found.flops_per_sample and found.bytes_per_sample:
            sample = (
                f"; a sample: {number(found.flops_per_sample / 1e9)} GFLOP, {number(found.bytes_per_sample / 1e6)} MB"
            )
        yield "line", f"  a step: {work}{sample}", ""
    yield "note", f"ceilings: {_source(found.ceilings)}", ""


def _source(ceilings: model.CeilingsInfo) -> str:
    return ceilings.source + ("" if ceilings.how == "measured" else "; `gpuwhy ceilings` measures yours")


def _part(least: str, share: float) -> str:
    return f"{least}{100 * share:.1f} %"


def _unknown(found: model.RooflineInfo) -> Iterator[tuple[str, str, str]]:
    if found.ceilings is None or found.known_share > 1 - LEAST_UNKNOWN:
        return
    why = "; ".join(f"{clean(one.why)} {100 * one.share:.0f} %" for one in found.unknown if one.share >= LEAST_UNKNOWN)
    yield "note", f"work and bound are known for {100 * found.known_share:.0f} % of the busy time ({why})", ""


def _wastes(found: model.RooflineInfo, parts: int, steps: bool) -> Iterator[tuple[str, str, str]]:
    worth = [waste for waste in found.wastes if waste.worth]
    if not worth and found.known_share < LEAST_KNOWN:
        return
    if not worth:
        yield "line", f"nothing that is known of the busy time is worth {100 * WORTH:.0f} % of the window", ""
        yield "line", "", ""
        return
    unit = "ms a step" if steps else "ms"
    yield "head", "what of it goes to the wrong thing", f"{unit:>10} {'can save':>9} {'of window':>10}"
    for waste in worth:
        saved = waste.ns - waste.least_ns
        figures = (
            f"{ms(waste.ns / parts):>10} {'≤ ' + ms(saved / parts):>9} {f'≤ {100 * waste.most_saved_share:.1f} %':>10}"
        )
        yield "row", waste.cause, figures
        moved = ""
        if waste.bytes is not None and waste.least_bytes is not None:
            now, then = (number(of / parts / 1e9) for of in (waste.bytes, waste.least_bytes))
            moved = f" ({now} GB move{' a step' if steps else ''}, {then} GB would do)"
        yield "told", f"{clean(waste.title)}{moved}", ""
        for one in waste.operators[:MOST_CONCERNED]:
            often = one.calls / parts
            count = f"{often:,.0f} ×" if often >= 1 else f"{one.calls} in all ×"
            yield (
                "more",
                f"{count} {clean(one.name)} {_dims(one.dims)} {_types(one.types)}".rstrip(),
                ms(one.ns / parts),
            )
        yield "mend", f"→ {clean(waste.mend)}", ""
    yield "note", "what can be saved is a bound, not a prediction, and bounds do not add up", ""
    yield "line", "", ""


TYPES = {
    "c10::BFloat16": "bf16",
    "c10::Half": "fp16",
    "float": "fp32",
    "double": "fp64",
    "long int": "int64",
    "int": "int32",
    "bool": "bool",
    "c10::Float8_e4m3fn": "fp8",
}


def _types(text: str) -> str:
    """The different types of the tensors, in order."""
    found = {short: text.index(f'"{name}"') for name, short in TYPES.items() if f'"{name}"' in text}
    return ", ".join(sorted(found, key=lambda short: found[short]))


def _dims(text: str) -> str:
    """Shapes of the tensors, without those of other arguments."""
    short = clean(text).replace(", []", "").replace("[[], ", "[").replace(" ", "")
    return short if len(short) <= LONGEST_DIMS else short[: LONGEST_DIMS - 1] + "…"
