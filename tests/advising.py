"""What is told of imagined loops (`replaying`), and what else they can have in their steps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from events import MAIN
from replaying import CALL, GAP, RETURN, US, Body, Loop, replay

import gpuwhy
from gpuwhy.findings import WORTH, Finding, Look, findings
from gpuwhy.reports.model import Report
from gpuwhy.whatif.period import step_ns

STRETCHED, STRETCH = 20 * US, 1.8
"""Without a step time, so much of each stretch of host time counts as so many times too long (docs/whatif.md)."""
WARM = 0.87
"""What is left of a loop's host time where long work of another kind is gone (docs/whatif.md)."""
NEAR = 5 * US
SHORT, LONG = 40 * US, 180 * US
"""Kernels for operators of 100 µs: the host is slower than the first, faster than the second."""
GRAPH_GAP = 500
"""From one kernel of a launched graph to the next (docs/whatif.md)."""
STARTING = 8 * US
"""What a stop costs the launches after it (docs/whatif.md)."""
OTHER = 300
"""A thread beside the loop's."""
STREAM = 20
"""A stream beside the loop's."""
FLOATS, BYTES = ("float", [1 << 20]), ("unsigned char", [1 << 22])
"""Tensors of 4 MiB."""
IN_LOOP = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
FROM_WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

DATA = Path(__file__).parent / "data"


def unprofiled(*stretches: float) -> float:
    """What stretches of host time take without the profiler."""
    return sum(min(ns, STRETCHED) / STRETCH + max(ns - STRETCHED, 0) for ns in stretches)


def explained(of: Loop, folder: Path, **options: Any) -> Report:
    """The report of what a loop recorded."""
    return gpuwhy.explain(str(of.profile.write(folder / "profile.json")), **options)


def recorded(name: str, **options: Any) -> Report:
    """The report of a profile in tests/data."""
    return gpuwhy.explain(str(DATA / f"{name}.json.gz"), **options)


def offers(report: Report, rank: int = 0) -> dict[str, float]:
    """The step after each mend that is offered to a rank, in ns."""
    of_rank = [one for one in report.findings if one.rank == rank]
    return {mend.id: mend.step_after_ns.mid for one in of_rank for mend in one.mends}


def causes(report: Report) -> list[str]:
    """Of all findings, in their order."""
    return [one.cause for one in report.findings]


def seen(of: Loop, folder: Path) -> dict[str, Finding]:
    """What the rules see in a loop, whatever its mends would bring, by cause."""
    found = replay(of, folder)
    setting, device = found.setting, found.device_ns
    assert setting is not None, found.withheld
    assert device is not None
    assert found.step_ns is not None
    step = step_ns(replace(setting.graph, pace_ns=0.0), setting.period)
    host_bound = device <= (1 - WORTH) * found.step_ns
    return {one.cause: one for one in findings(Look(setting, [], step, found.step_ns, device if host_bound else None))}


# --- What a step can have in it -----------------------------------------------------------------------------


def operators(count: int, kernel: int | None, ns: int = 100 * US, name: str = "aten::mm", pause: int = 0) -> Body:
    """Operators of so long, each with a kernel of so long, and so much time between them."""

    def body(loop: Loop) -> None:
        for _ in range(count):
            loop.now += pause
            loop.operator(ns, kernel, name=name)

    return body


def small_products(count: int, kernel: int, ns: int) -> Body:
    """Products too small to fill the device."""

    def body(loop: Loop) -> None:
        for _ in range(count):
            start, loop.now = loop.now, loop.now + ns
            loop.profile.operator("aten::mm", start, loop.now, inputs=[("c10::BFloat16", [64, 64])] * 2)
            begin = loop.enqueued()
            loop.free = begin + kernel
            loop.profile.launch(loop.now - CALL, loop.now, begin, loop.free, name="sm90_xmma_gemm_bf16bf16")

    return body


def sleeps(ns: int) -> Body:
    def body(loop: Loop) -> None:
        loop.now += ns

    return body


def marked(name: str, ns: int) -> Body:
    """Host time in an annotation."""

    def body(loop: Loop) -> None:
        loop.profile.annotation(name, loop.now, loop.now + ns)
        loop.now += ns

    return body


def marked_beside(name: str, ns: int) -> Body:
    """An annotation on a thread that the loop does not wait for."""
    return lambda loop: loop.profile.annotation(name, loop.now, loop.now + ns, OTHER)


def within(name: str, *bodies: Body, kind: str = "annotation") -> Body:
    """An annotation, or an operator, around something."""

    def body(loop: Loop) -> None:
        start = loop.now
        for one in bodies:
            one(loop)
        getattr(loop.profile, kind)(name, start, loop.now, MAIN)

    return body


def calls(name: str, ns: int) -> Body:
    return lambda loop: loop.call(name, ns)


def waits(loop: Loop) -> None:
    loop.wait("cudaDeviceSynchronize")


def frees(loop: Loop) -> None:
    loop.wait("cudaFree", 200 * US)


def pageable(ns: int, size: int = 1024) -> Body:
    return lambda loop: loop.copy(ns, size)


def copied_out(ns: int, *, operator: str = "aten::copy_", size: int = 1 << 22, tensor: Any = FLOATS) -> Body:
    """A copy to the host that an operator waits for."""

    def body(loop: Loop) -> None:
        begin, loop.now = loop.now, loop.now + US
        call, loop.now = loop.now, loop.now + CALL
        start = loop.enqueued()
        loop.free = start + ns
        loop.now = loop.free + RETURN
        correlation = loop.profile.runtime("cudaMemcpyAsync", call, loop.now)
        loop.profile.copy("DtoH (Device -> Pageable)", start, loop.free, correlation, size=size)
        loop.now += US
        loop.profile.operator(operator, begin, loop.now, inputs=[tensor, tensor, ("Scalar", "False")])

    return body


def several(count: int, *bodies: Body) -> Body:
    def body(loop: Loop) -> None:
        for _ in range(count):
            for one in bodies:
                one(loop)

    return body


item = copied_out(2 * US, operator="aten::item", size=4, tensor=("float", []))
"""One number is read."""
sized = copied_out(2 * US, operator="aten::nonzero", size=8)
"""The host asks for the size of a result."""


def beside(ns: int, kind: str | None = None) -> Body:
    """A collective, or a copy, on another stream beside what the device does next; nothing waits for it."""

    def body(loop: Loop) -> None:
        call, loop.now = loop.now, loop.now + CALL
        start = max(loop.now, loop.free) + 10 * US
        if kind is None:
            loop.profile.launch(call, loop.now, start, start + ns, name=NCCL, stream=STREAM)
        else:
            correlation = loop.profile.runtime("cudaMemcpyAsync", call, loop.now)
            loop.profile.copy(kind, start, start + ns, correlation, stream=STREAM, size=1 << 24)

    return body


def collective(ns: int) -> Body:
    """A collective between the other kernels."""

    def body(loop: Loop) -> None:
        call, loop.now = loop.now, loop.now + CALL
        begin = loop.enqueued()
        loop.free = begin + ns
        loop.profile.launch(call, loop.now, begin, loop.free, name=NCCL)

    return body


def replayed_graph(kernels: int, kernel: int) -> Body:
    """One launch of many kernels."""

    def body(loop: Loop) -> None:
        call, loop.now = loop.now, loop.now + CALL
        correlation = loop.profile.runtime("cudaGraphLaunch", call, loop.now)
        for _ in range(kernels):
            begin = loop.enqueued()
            loop.free = begin + kernel
            loop.profile.kernel("kernel", begin, loop.free, correlation)

    return body


def batch_taken(pinned_every: int) -> Body:
    """A batch that is ready; a thread of the loader pins one for every so many that are taken."""
    count = 0

    def body(loop: Loop) -> None:
        nonlocal count
        if count % pinned_every == 0:
            loop.profile.runtime("cudaPointerGetAttributes", loop.now, loop.now + 2 * US, thread=OTHER)
        count += 1
        marked(FROM_WORKERS, 10 * US)(loop)
        beside(20 * US, "HtoD (Pinned -> Device)")(loop)

    return body


def only_at_first(body: Body) -> Body:
    return lambda loop: body(loop) if not loop.begins else None


def ranks(folder: Path, late: Callable[[int], tuple[int, ...]], kernel: int, steps: int = 8) -> list[str]:
    """Loops of six operators and a wait, before the last one an all-reduce (50 µs), and before that some sleep.

    How long each rank sleeps, `late` says for each step.
    """
    loops = [Loop(rank=rank) for rank in range(len(late(0)))]
    for step in range(steps):
        with ExitStack() as stack:
            for loop, ns in zip(loops, late(step), strict=True):
                stack.enter_context(loop.step())
                operators(5, kernel)(loop)
                loop.now += ns
            begins = [loop.now for loop in loops]
            for loop in loops:
                loop.now += CALL
            starts = [loop.enqueued() for loop in loops]
            for loop, call, start in zip(loops, begins, starts, strict=True):
                loop.free = max(starts) + 50 * US
                loop.profile.launch(call, loop.now, start, loop.free, name=NCCL)
                loop.operator(100 * US, kernel)
                waits(loop)
    return [str(loop.profile.write(folder / f"rank{rank}.json")) for rank, loop in enumerate(loops)]


HOST_BOUND, DEVICE_BOUND = operators(10, SHORT), operators(10, LONG)
HOST_STEP, DEVICE_STEP = 10 * unprofiled(100 * US - CALL, CALL), 10 * (LONG + GAP)
"""What a step of each takes without the profiler."""
