"""`Roofline` → its part of the report."""

from __future__ import annotations

from dataclasses import asdict

from gpuwhy.reports import roofline_model as model
from gpuwhy.roofline.judge import Peaks, Roofline
from gpuwhy.roofline.unknown import REASONS, REPLAYED

SHAPES_ADVICE = (
    "record with torch.profiler.profile(record_shapes=True): the work of each operator (FLOPs and bytes), how near it "
    "comes to what the device can do, MFU, and what is wrong with the busy time (precision, shapes, fusion, attention)"
)
OPERATORS_ADVICE = (
    "record the host too, with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True); "
    "without operators nothing tells what a kernel works on"
)
GRAPH_ADVICE = (
    "let the recording begin before the graph is captured: what it replays has the shapes of its capture, or of the "
    "same kernels run without the graph"
)
MOSTLY = 0.5
"""Part of the busy time that must be replays of unknown graphs for the advice on them."""
DEVICE_ADVICE = "run `gpuwhy ceilings` on the device: what it measures is used for profiles of that device from then on"


def build_roofline(found: Roofline, window_ns: int, steps: int, samples: int | None) -> model.RooflineInfo:
    """`steps` is 0 and `samples` None where they are not known."""
    use, busy = found.use, max(found.use.ns, 1)
    known = sum(ns for bound, ns in use.bounds.items() if bound != "unknown")

    def each(total: float, parts: int | None) -> float | None:
        return total / parts if parts else None

    every = steps * samples if steps and samples else None
    return model.RooflineInfo(
        ceilings=_ceilings(found),
        known_share=known / busy,
        efficiency=use.efficiency,
        flops=use.flops,
        bytes=use.bytes,
        dram_bytes=use.dram_bytes,
        flops_per_step=each(use.flops, steps),
        bytes_per_step=each(use.bytes, steps),
        flops_per_sample=each(use.flops, every),
        bytes_per_sample=each(use.bytes, every),
        peaks=_peaks(found.peaks),
        mfu=found.mfu,
        mbu=found.mbu,
        recomputed_flops=found.recomputed_flops,
        tensor_core_share=found.tensor_core_ns / busy,
        accounts=[
            model.AccountUse(
                account=account,
                ns=one.ns,
                known_ns=one.known_ns,
                efficiency=one.efficiency,
                bound=one.bound,
                bounds=one.bounds,
                flops=one.flops,
                bytes=one.bytes,
                dram_bytes=one.dram_bytes,
            )
            for account, one in sorted(found.accounts.items(), key=lambda item: -item[1].ns)
        ],
        operators=[
            model.OperatorUse(
                name=one.name,
                dims=one.dims,
                types=one.types,
                calls=one.calls,
                ns=one.use.ns,
                share=one.use.ns / window_ns,
                precision=one.precision,
                flops_per_s=_rate(one.use.flops, one.use.ns),
                bytes_per_s=_rate(one.use.bytes, one.use.ns),
                efficiency=one.use.efficiency,
                bound=one.use.bound,
            )
            for one in found.operators
        ],
        wastes=[
            model.WasteInfo(
                cause=one.cause,
                title=one.title,
                mend=one.mend,
                ns=one.ns,
                share=one.ns / window_ns,
                least_ns=one.least_ns,
                most_saved_share=one.most_saved_ns / window_ns,
                worth=one.is_worth(window_ns),
                bytes=one.bytes,
                least_bytes=one.least_bytes,
                operators=[model.Concerned(**asdict(operator)) for operator in one.operators],
            )
            for one in found.wastes
        ],
        unknown=[model.Unknown(why=why, ns=ns, share=ns / busy) for why, ns in found.unknown],
        advice=advice_on(found),
    )


def _ceilings(found: Roofline) -> model.CeilingsInfo | None:
    ceilings = found.ceilings
    if ceilings is None:
        return None
    return model.CeilingsInfo(
        how=ceilings.how,
        source=ceilings.source,
        flops_per_s=ceilings.flops,
        dram_bytes_per_s=ceilings.dram_bytes_per_s,
    )


def _peaks(peaks: Peaks | None) -> model.PeaksInfo | None:
    if peaks is None:
        return None
    return model.PeaksInfo(
        precision=peaks.precision,
        flops_per_s=peaks.flops,
        dram_bytes_per_s=peaks.bytes_per_s,
        source=peaks.source,
    )


def _rate(total: float, ns: int) -> float | None:
    return total / ns * 1e9 if ns else None


def advice_on(found: Roofline) -> str | None:
    """What to do about what is not known most."""
    if not found.shapes_recorded:
        return SHAPES_ADVICE if found.operators_recorded else OPERATORS_ADVICE
    if found.ceilings is None:
        return DEVICE_ADVICE
    replayed = sum(ns for why, ns in found.unknown if why == REASONS[REPLAYED])
    return GRAPH_ADVICE if replayed > MOSTLY * found.use.ns else None
