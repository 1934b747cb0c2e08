"""The worked examples of docs/ledger.md: small timelines whose ledgers were found by hand.

They are the specification as numbers. Each is held against the brute force and against the package.

In sketches `=` is a busy device and `[name)` an open call. Many examples begin alike (`one_gap`): a kernel
[100, 200), then the gap [200, 300), ended by a second kernel:

              0         100       200       300       400
    device              |==first==|   gap   |==second=|
    main      [op)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import brute_force
import pytest
from events import MAIN, Profile

BACKWARD, BACKWARD_2, WORKER = 101, 102, 103
EVALUATE = "autograd::engine::evaluate_function: WorkBackward0"
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
PLAIN = "mylib::work"  # an operator without a class
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def explained(path: Path, device: int = 0, window: str | None = "all") -> dict[str, Any]:
    """What the package says; all that these tests know of its interface. `window=None`: its default, the
    steps.
    """
    import gpuwhy

    report = gpuwhy.explain(path, window=window) if window else gpuwhy.explain(path)
    ours = next(one for one in report.devices if one.device == device)
    return {
        "ledger": {line.account: line.ns for line in ours.ledger},
        "hidden": {line.account: line.ns for line in ours.hidden},
        "window": (ours.window_start_ns, ours.window_start_ns + ours.window_ns),
        "busy_ns": ours.busy_ns,
        "steps": report.window.steps and tuple(report.window.steps),
        "step_count": report.step.count if report.step else None,
    }


@dataclass
class Example:
    profile: Profile
    ledger: dict[str, int]
    hidden: dict[str, int] = field(default_factory=dict)
    window: tuple[int, int] | None = None
    """Of the steady state, where the example is about steps; otherwise everything is judged."""
    steps: tuple[int, int] | None = None
    """Numbers of the first and last mark in the window."""
    step_count: int | None = None
    device: int = 0


EXAMPLES: list[Any] = []


def example(make: Callable[[], Example]) -> Callable[[], Example]:
    EXAMPLES.append(pytest.param(make, id=make.__name__))
    return make


@pytest.mark.parametrize("make", EXAMPLES)
def test_brute_force(make: Callable[[], Example]) -> None:
    wanted = make()
    document = wanted.profile.document()
    if wanted.window:
        steady = brute_force.steady_steps(document, wanted.device)
        assert brute_force.steady_window(document, wanted.device) == wanted.window
        assert (steady[0][0], steady[-1][0]) == wanted.steps
        assert len(steady) == wanted.step_count
    assert brute_force.ledger(document, wanted.device, wanted.window) == wanted.ledger
    assert brute_force.hidden(document, wanted.device, wanted.window) == wanted.hidden
    if wanted.window:
        assert sum(wanted.ledger.values()) == wanted.window[1] - wanted.window[0]


@pytest.mark.parametrize("make", EXAMPLES)
def test_package(make: Callable[[], Example], tmp_path: Path) -> None:
    wanted = make()
    path = wanted.profile.write(tmp_path / "profile.json")
    found = explained(path, wanted.device, None if wanted.window else "all")
    assert found["ledger"] == wanted.ledger
    assert found["hidden"] == wanted.hidden
    assert found["busy_ns"] == sum(ns for account, ns in wanted.ledger.items() if account.startswith("busy/"))
    assert found["window"][1] - found["window"][0] == sum(wanted.ledger.values())
    if wanted.window:
        # The package counts from the earliest event of the recording, the examples from the profile's base.
        earliest = min(when[0] for event in wanted.profile.events() if (when := brute_force.times(event)))
        assert found["window"] == (wanted.window[0] - earliest, wanted.window[1] - earliest)
        assert found["steps"] == wanted.steps
        assert found["step_count"] == wanted.step_count


def one_gap(thread: int = MAIN) -> Profile:
    """The first kernel [100, 200); what follows must launch the second, [300, 400)."""
    p = Profile()
    p.operator(PLAIN, 0, 20, thread)
    p.launch(5, 15, 100, 200, thread=thread)
    return p


# --- Each row of the table ----------------------------------------------------------------------------------
# One call is open in the first 60 ns of the gap; then an operator launches the kernel that ends it.
#
#                 200   260  280  295 300
#     device  ====|        gap        |==second==
#     main        [call)[operator     )
#                            [launch)

ROWS = [
    # category, name, account
    ("runtime", "cudaMalloc", "idle/allocator"),
    ("runtime", "cudaFree", "idle/allocator"),
    ("runtime", "cudaMallocAsync", "idle/allocator"),
    ("runtime", "cudaHostAlloc", "idle/allocator"),
    ("runtime", "cudaMallocHost", "idle/allocator"),
    ("runtime", "cudaFreeHost", "idle/allocator"),
    ("runtime", "cudaDeviceSynchronize", "idle/sync"),
    ("runtime", "cudaStreamSynchronize", "idle/sync"),
    ("runtime", "cudaEventSynchronize", "idle/sync"),
    ("runtime", "cudaMemcpyAsync", "idle/copy_call"),
    ("runtime", "cudaMemcpy", "idle/copy_call"),
    ("runtime", "cuModuleLoadData", "idle/module_load"),
    ("runtime", "cuLibraryLoadData", "idle/module_load"),
    ("runtime", "cudaLaunchKernel", "idle/launch"),
    ("runtime", "cudaLaunchKernelExC", "idle/launch"),
    ("runtime", "cuLaunchKernel", "idle/launch"),
    ("runtime", "cuLaunchKernelEx", "idle/launch"),
    ("runtime", "cudaMemsetAsync", "idle/launch"),
    ("runtime", "cudaGraphLaunch", "idle/launch"),
    ("frame", "torch/profiler/profiler.py(894): step", "idle/profiler"),
    ("frame", "torch/_dynamo/convert_frame.py(686): _compile", "idle/compile"),
    ("frame", "triton/compiler/compiler.py(226): compile", "idle/compile"),
    ("annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "idle/input"),
    ("annotation", LOADER, "idle/input"),
    ("frame", "torch/utils/data/_utils/fetch.py(52): fetch", "idle/input"),
    ("frame", "torch/serialization.py(943): save", "idle/serialization"),
    ("frame", "<built-in function collect>", "idle/gc"),
    # What decides nothing on the walk
    ("operator", "aten::view", "idle/host_compute"),
    ("operator", PLAIN, "idle/host_compute"),
    ("frame", "train.py(10): log", "idle/outside_operators/train.py(10): log"),
    ("annotation", "evaluation", "idle/outside_operators/annotation: evaluation"),
    ("annotation", "Optimizer.step#Adam.step", "idle/outside_operators/annotation: Optimizer.step#Adam.step"),
    ("annotation", "ProfilerStep#3", "idle/outside_operators/main"),
    ("runtime", "cudaEventQuery", "idle/outside_operators/main"),
    ("runtime", "cudaStreamWaitEvent", "idle/outside_operators/main"),  # does not block the host
    ("runtime", "cudaEventRecord", "idle/outside_operators/main"),
]


def row(category: str, name: str, account: str) -> Callable[[], Example]:
    def make() -> Example:
        p = one_gap()
        getattr(p, category)(name, 200, 260)
        p.operator(PLAIN, 260, 300)
        p.launch(280, 295, 300, 400)
        ledger = {"busy/other": 200, "idle/dispatch": 20, "idle/launch": 15, "idle/device": 5}
        ledger[account] = ledger.get(account, 0) + 60
        return Example(p, ledger)

    return make


EXAMPLES += [pytest.param(row(*values), id=f"row-{values[1]}") for values in ROWS]


# --- What was open: between the rows ------------------------------------------------------------------------


@example
def allocation_inside_an_operator() -> Example:
    """main  200 [operator             ) 300
    220 [malloc) 250   280 [launch) 295"""
    p = one_gap()
    p.operator(PLAIN, 200, 300)
    p.runtime("cudaMalloc", 220, 250)
    p.launch(280, 295, 300, 400)
    return Example(
        p,
        {
            "busy/other": 200,
            "idle/dispatch": 20 + 30,  # [200, 220) and [250, 280)
            "idle/allocator": 30,
            "idle/launch": 15,
            "idle/device": 5,
        },
    )


@example
def operator_inside_the_loader() -> Example:
    """main  200 [loader          ) 260 [op   ) 300
    210 [aten::stack) 250     280 [launch) 295"""
    p = one_gap()
    p.annotation(LOADER, 200, 260)
    p.operator("aten::stack", 210, 250)
    p.operator(PLAIN, 260, 300)
    p.launch(280, 295, 300, 400)
    return Example(p, {"busy/other": 200, "idle/input": 60, "idle/dispatch": 20, "idle/launch": 15, "idle/device": 5})


@example
def wait_inside_the_loader() -> Example:
    """The innermost that says something: the synchronization [220, 250) inside the loader [200, 260)."""
    p = one_gap()
    p.annotation(LOADER, 200, 260)
    p.operator("aten::pin_memory", 210, 255)
    p.runtime("cudaEventSynchronize", 220, 250)
    p.operator(PLAIN, 260, 300)
    p.launch(280, 295, 300, 400)
    return Example(
        p,
        {
            "busy/other": 200,
            "idle/input": 30,
            "idle/sync": 30,
            "idle/dispatch": 20,
            "idle/launch": 15,
            "idle/device": 5,
        },
    )


@example
def gap_shared_by_three_causes() -> Example:
    """main  ...200 loader) 230 [cpu operator) 250 [cudaFree) 290 [launch) 300, and nothing else

    The loader began at 150, while the device was busy: only what lies in the gap counts.
    """
    p = one_gap()
    p.annotation(LOADER, 150, 230)
    p.operator("aten::sort", 230, 250)
    p.runtime("cudaFree", 250, 290)
    p.launch(290, 300, 300, 400)
    return Example(
        p,
        {
            "busy/other": 200,
            "idle/input": 30,
            "idle/host_compute": 20,
            "idle/allocator": 40,
            "idle/launch": 10,
        },
    )


@example
def outermost_operator_decides() -> Example:
    """The inner operator [210, 240) launches nothing, the outermost [200, 300) does: dispatch."""
    p = one_gap()
    p.operator("mylib::outer", 200, 300)
    p.operator("aten::view", 210, 240)
    p.launch(280, 295, 300, 400)
    return Example(p, {"busy/other": 200, "idle/dispatch": 80, "idle/launch": 15, "idle/device": 5})


@example
def outermost_operator_launches_nothing() -> Example:
    """mylib::outer [200, 280) is on the host only; the launch follows outside any operator."""
    p = one_gap()
    p.operator("mylib::outer", 200, 280)
    p.operator("mylib::inner", 210, 240)
    p.launch(280, 295, 300, 400)
    return Example(p, {"busy/other": 200, "idle/host_compute": 80, "idle/launch": 15, "idle/device": 5})


@example
def operator_whose_launch_has_no_recorded_operation() -> Example:
    """The launch call [210, 220) inside the operator [200, 260) led to nothing that was recorded."""
    p = one_gap()
    p.operator(PLAIN, 200, 260)
    p.runtime("cudaLaunchKernel", 210, 220)
    p.launch(280, 300, 300, 400)
    return Example(
        p,
        {
            "busy/other": 200,
            "idle/host_compute": 50,
            "idle/launch": 10 + 20,
            "idle/outside_operators/main": 20,  # [260, 280)
        },
    )


@example
def operator_that_launches_on_another_device() -> Example:
    """The operator [200, 260) launches for device 1: it launches device work, so device 0 waits for
    dispatch.
    """
    p = one_gap()
    p.operator(PLAIN, 200, 260)
    p.launch(210, 220, 230, 240, device=1)
    p.launch(280, 300, 300, 400)
    return Example(
        p,
        {"busy/other": 200, "idle/dispatch": 50, "idle/launch": 30, "idle/outside_operators/main": 20},
    )


@example
def operator_that_launches_an_operation_of_zero_length() -> Example:
    """An operation of zero length is an operation: its operator launches device work."""
    p = one_gap()
    p.operator(PLAIN, 200, 260)
    p.launch(210, 220, 230, 230)
    p.launch(280, 300, 300, 400)
    return Example(
        p,
        {"busy/other": 200, "idle/dispatch": 50, "idle/launch": 30, "idle/outside_operators/main": 20},
    )


@example
def calls_that_overlap_without_nesting() -> Example:
    """main  200 [mylib::a) 260, launches nothing
    240 [mylib::b     ) 300, launches

    Until 260 the outermost open operator is a, after it b.
    """
    p = one_gap()
    p.operator("mylib::a", 200, 260)
    p.operator("mylib::b", 240, 300)
    p.launch(280, 300, 300, 400)
    return Example(p, {"busy/other": 200, "idle/host_compute": 60, "idle/dispatch": 20, "idle/launch": 20})


@example
def launch_that_outlasts_its_operator() -> Example:
    """main  200 [aten::mm   ) 290
                 280 [launch) 300

    The launch lies in the operators that are open when it starts: aten::mm launches work, which is a matmul.
    """
    p = one_gap()
    p.operator("aten::mm", 200, 290)
    p.launch(280, 300, 300, 400)
    return Example(p, {"busy/other": 100, "busy/matmul": 100, "idle/dispatch": 80, "idle/launch": 20})


@example
def special_calls_that_overlap_without_nesting() -> Example:
    """[200, 260) serialization and [240, 280) loader: the one that started later is inside."""
    p = one_gap()
    p.frame("torch/serialization.py(943): save", 200, 260)
    p.annotation(LOADER, 240, 280)
    p.launch(280, 300, 300, 400)
    return Example(p, {"busy/other": 200, "idle/serialization": 40, "idle/input": 40, "idle/launch": 20})


@example
def calls_that_start_together() -> Example:
    """Of the loader [200, 280) and the profiler [200, 230) the one that ends first is inside."""
    p = one_gap()
    p.annotation(LOADER, 200, 280)
    p.frame("torch/profiler/profiler.py(894): step", 200, 230)
    p.launch(280, 300, 300, 400)
    return Example(p, {"busy/other": 200, "idle/profiler": 30, "idle/input": 50, "idle/launch": 20})


@example
def runtime_call_with_the_times_of_its_operator() -> Example:
    p = one_gap()
    p.operator("aten::empty", 200, 250)
    p.runtime("cudaMalloc", 200, 250)
    p.launch(250, 300, 300, 400)
    return Example(p, {"busy/other": 200, "idle/allocator": 50, "idle/launch": 50})


@example
def calls_of_zero_length_are_never_open() -> Example:
    p = one_gap()
    p.operator("mylib::a", 200, 200)
    p.runtime("cudaMalloc", 220, 220)
    p.frame("train.py(1): f", 230, 230)
    p.launch(280, 300, 300, 400)
    return Example(p, {"busy/other": 200, "idle/outside_operators/main": 80, "idle/launch": 20})


@example
def synchronization_while_the_device_drains() -> Example:
    """The host waits in [150, 230); the device is busy until 200, so only [200, 230) is a loss to the
    wait.
    """
    p = one_gap()
    p.runtime("cudaStreamSynchronize", 150, 230)
    p.operator(PLAIN, 230, 300)
    p.launch(280, 295, 300, 400)
    return Example(p, {"busy/other": 200, "idle/sync": 30, "idle/dispatch": 50, "idle/launch": 15, "idle/device": 5})


@example
def innermost_frame_names_the_place() -> Example:
    """main  200 [train.py: main              ) 300
    220 [train.py: log ) 260
    230 [json: dumps) 240        280 [launch) 300"""
    p = one_gap()
    p.frame("train.py(1): main", 200, 300)
    p.frame("train.py(9): log", 220, 260)
    p.frame("json/__init__.py(183): dumps", 230, 240)
    p.launch(280, 300, 300, 400)
    return Example(
        p,
        {
            "busy/other": 200,
            "idle/outside_operators/train.py(1): main": 20 + 20,
            "idle/outside_operators/train.py(9): log": 10 + 20,
            "idle/outside_operators/json/__init__.py(183): dumps": 10,
            "idle/launch": 20,
        },
    )


@example
def annotation_is_a_frame_and_a_step_mark_is_none() -> Example:
    """The step mark [205, 300) is the innermost in [250, 280), and says nothing; the annotation outside of it
    does.

    200 [annotation: epoch       ) 300
    205 [ProfilerStep#3          ) 300
    210 [annotation: log ) 250        280 [launch) 300
    """
    p = one_gap()
    p.annotation("epoch", 200, 300)
    p.step(3, 205, 300)
    p.annotation("log", 210, 250)
    p.launch(280, 300, 300, 400)
    return Example(
        p,
        {
            "busy/other": 200,
            "idle/outside_operators/annotation: epoch": 10 + 30,
            "idle/outside_operators/annotation: log": 40,
            "idle/launch": 20,
        },
    )


@example
def operator_outside_of_a_frame() -> Example:
    """The frame [220, 260) is inside an operator [200, 300) that launches: dispatch all the same."""
    p = one_gap()
    p.operator(PLAIN, 200, 300)
    p.frame("train.py(9): forward", 220, 260)
    p.launch(280, 300, 300, 400)
    return Example(p, {"busy/other": 200, "idle/dispatch": 80, "idle/launch": 20})


# --- Idle time: the operation that ends the gap, and its launch ---------------------------------------------


@example
def launched_before_the_gap() -> Example:
    """The launch [150, 160) ended before the gap began: all of it is the device's, whatever the host does
    then.
    """
    p = one_gap()
    p.launch(150, 160, 300, 400)
    p.annotation(LOADER, 200, 300)
    return Example(p, {"busy/other": 200, "idle/device": 100})


@example
def launch_ends_with_the_gaps_start() -> Example:
    p = one_gap()
    p.launch(150, 200, 300, 400)
    return Example(p, {"busy/other": 200, "idle/device": 100})


@example
def launch_that_ends_inside_the_kernel() -> Example:
    """The kernel starts at 300 while its launch call [280, 320) still runs."""
    p = one_gap()
    p.launch(280, 320, 300, 400)
    return Example(p, {"busy/other": 200, "idle/outside_operators/main": 80, "idle/launch": 20})


@example
def kernel_before_its_launch() -> Example:
    """A skewed clock: the kernel starts at 300, its launch call is [320, 340). What was open decides all the
    gap.
    """
    p = one_gap()
    p.operator(PLAIN, 250, 350)
    p.launch(320, 340, 300, 400)
    return Example(p, {"busy/other": 200, "idle/outside_operators/main": 50, "idle/dispatch": 50})


@example
def launch_of_zero_length() -> Example:
    """The launch call [280, 280) is never open; before it dispatch, after it the device."""
    p = one_gap()
    p.operator(PLAIN, 200, 300)
    p.launch(280, 280, 300, 400)
    return Example(p, {"busy/other": 200, "idle/dispatch": 80, "idle/device": 20})


@example
def launch_not_recorded() -> Example:
    """Nothing is known of who ended the gap, although the main thread is in the loader."""
    p = one_gap()
    p.annotation(LOADER, 200, 300)
    p.kernel("kernel", 300, 400, correlation=4711)
    return Example(p, {"busy/other": 200, "idle/untraced": 100})


@example
def kernel_without_correlation() -> Example:
    p = one_gap()
    p.kernel("kernel", 300, 400, correlation=None)
    return Example(p, {"busy/other": 200, "idle/untraced": 100})


@example
def thread_with_nothing_but_runtime_calls() -> Example:
    """worker  200 [cudaMalloc) 230  240 [cudaEventQuery) 250  280 [launch) 290

    What its calls explain is theirs; after the launch the device; the rest is untraced. Main does not help.
    """
    p = one_gap()
    p.operator(PLAIN, 190, 300)
    p.runtime("cudaMalloc", 200, 230, thread=WORKER)
    p.runtime("cudaEventQuery", 240, 250, thread=WORKER)
    p.launch(280, 290, 300, 400, thread=WORKER)
    return Example(
        p,
        {"busy/other": 200, "idle/allocator": 30, "idle/untraced": 50, "idle/launch": 10, "idle/device": 10},
    )


@example
def one_frame_anywhere_makes_a_thread_known() -> Example:
    """As before, but the worker has one Python frame, long before: now it is a thread of which something is
    known.
    """
    p = one_gap()
    p.frame("threading.py(1): run", 30, 40, thread=WORKER)
    p.launch(280, 290, 300, 400, thread=WORKER)
    return Example(p, {"busy/other": 200, "idle/outside_operators/other": 80, "idle/launch": 10, "idle/device": 10})


@example
def graph_launch() -> Example:
    """One launch call and one correlation for three kernels; the gaps between the nodes are the device's.

              200       300   320  330   350 360   400
    device ===|   gap   |=====|    |=====|   |=====|
    main  200 [annotation            ) 340
              250 [cudaGraphLaunch) 310
    """
    p = one_gap()
    p.annotation("decode", 200, 340)
    graph = p.runtime("cudaGraphLaunch", 250, 310)
    p.kernel("kernel", 300, 320, graph)
    p.kernel("kernel", 330, 350, graph)
    p.kernel("kernel", 360, 400, graph)
    return Example(
        p,
        {
            "busy/other": 100 + 80,
            "idle/outside_operators/annotation: decode": 50,
            "idle/launch": 50,
            "idle/device": 10 + 10,
        },
    )


@example
def graph_launch_that_outlasts_its_first_node() -> Example:
    """The gap [320, 330) between two nodes lies before the end of the launch call [250, 325): 5 launch, 5
    device.
    """
    p = one_gap()
    p.annotation("decode", 200, 340)
    graph = p.runtime("cudaGraphLaunch", 250, 325)
    p.kernel("kernel", 300, 320, graph)
    p.kernel("kernel", 330, 400, graph)
    return Example(
        p,
        {
            "busy/other": 100 + 90,
            "idle/outside_operators/annotation: decode": 50,
            "idle/launch": 50 + 5,
            "idle/device": 5,
        },
    )


@example
def gap_ended_by_a_memset() -> Example:
    p = one_gap()
    p.operator("aten::zero_", 200, 300)
    p.memset(300, 400, p.runtime("cudaMemsetAsync", 270, 290))
    return Example(
        p,
        {"busy/other": 100, "busy/memset": 100, "idle/dispatch": 70, "idle/launch": 20, "idle/device": 10},
    )


@example
def gap_ended_by_a_copy() -> Example:
    """A pageable copy: the call [220, 380) blocks until after the copy's end."""
    p = one_gap()
    p.operator("aten::copy_", 200, 390)
    p.copy("HtoD (Pageable -> Device)", 300, 350, p.runtime("cudaMemcpyAsync", 220, 380))
    return Example(
        p,
        {"busy/other": 100, "busy/copy/h2d_pageable": 50, "idle/dispatch": 20, "idle/copy_call": 80},
    )


@example
def two_operations_end_the_gap_together() -> Example:
    """At 300 a copy [300, 310) and a kernel [300, 400) start: compute goes first, so the kernel's launch
    counts.

    The copy was launched from the loader, [210, 220); the kernel by an operator that opened at 260.
    """
    p = one_gap()
    p.annotation(LOADER, 200, 260)
    p.copy("HtoD (Pinned -> Device)", 300, 310, p.runtime("cudaMemcpyAsync", 210, 220), stream=20)
    p.operator(PLAIN, 260, 300)
    p.launch(280, 290, 300, 400)
    return Example(
        p,
        {
            "busy/other": 200,
            "idle/input": 50,
            "idle/copy_call": 10,
            "idle/dispatch": 20,
            "idle/launch": 10,
            "idle/device": 10,
        },
        hidden={"busy/copy/h2d_pinned": 10},
    )


@example
def two_kernels_end_the_gap_together() -> Example:
    """The one that ends first ends the gap: it was launched before, in [30, 40), so the gap is the
    device's.
    """
    p = one_gap()
    p.launch(30, 40, 300, 350, stream=8)
    p.operator(PLAIN, 200, 300)
    p.launch(280, 290, 300, 400)
    return Example(p, {"busy/other": 200, "idle/device": 100})


@example
def two_kernels_of_one_length_end_the_gap_together() -> Example:
    """Same start, same end: the name decides, a before b. The launch of a was not recorded."""
    p = one_gap()
    p.kernel("a", 300, 400, correlation=None, stream=8)
    p.operator(PLAIN, 200, 300)
    p.launch(280, 290, 300, 400, name="b")
    return Example(p, {"busy/other": 200, "idle/untraced": 100})


@example
def communication_ends_the_gap() -> Example:
    """A collective and a copy start together at 300: communication goes before copies."""
    p = one_gap()
    p.copy("DtoD (Device -> Device)", 300, 320, p.runtime("cudaMemcpyAsync", 30, 40), stream=20)
    p.operator(PLAIN, 200, 300)
    p.launch(280, 300, 300, 400, name=NCCL, stream=30)
    return Example(
        p,
        {"busy/other": 100, "busy/communication": 100, "idle/dispatch": 80, "idle/launch": 20},
        hidden={"busy/copy/d2d": 20},
    )


# --- Zero lengths, times, what is left out ------------------------------------------------------------------


@example
def operation_of_zero_length_inside_a_gap() -> Example:
    """The kernel [250, 250) owns nothing and ends nothing; one gap [200, 300), ended by the kernel at 300."""
    p = one_gap()
    p.launch(30, 40, 250, 250)
    p.operator(PLAIN, 200, 300)
    p.launch(280, 300, 300, 400)
    return Example(p, {"busy/other": 200, "idle/dispatch": 80, "idle/launch": 20})


@example
def operation_of_zero_length_where_a_gap_ends() -> Example:
    """At 300 the kernel [300, 300), launched long before, and the kernel [300, 400): the latter ends
    the gap.
    """
    p = one_gap()
    p.launch(30, 40, 300, 300)
    p.operator(PLAIN, 200, 300)
    p.launch(280, 300, 300, 400)
    return Example(p, {"busy/other": 200, "idle/dispatch": 80, "idle/launch": 20})


@example
def operations_of_zero_length_at_both_ends() -> Example:
    """The recording runs from the first start to the last end of operations, of zero length too: [60, 450).

    Nothing starts where the last gap [400, 450) ends: untraced. The first, [60, 100), lies after its launch.
    """
    p = one_gap()
    p.launch(30, 40, 60, 60)
    p.launch(150, 160, 300, 400)
    p.launch(350, 360, 450, 450)
    return Example(p, {"busy/other": 200, "idle/device": 40 + 100, "idle/untraced": 50})


@example
def times_are_rounded_half_to_even() -> Example:
    """ts 0.1005 µs is 100.5 ns, so 100; dur 0.1005 is 100; the kernel is [100, 200), not [100, 201).

    ts 0.3015 is 302 (half to even), dur 0.0984999 is 98: [302, 400).
    """
    p = Profile()
    p.operator(PLAIN, 0, 50)
    args = {"device": 0, "context": 1, "stream": 7}
    first = p.runtime("cudaLaunchKernel", 10, 20)
    second = p.runtime("cudaLaunchKernel", 30, 40)
    kernel = {"cat": "kernel", "name": "kernel", "pid": 0, "tid": 7}
    p.raw('"ts": 0.1005, "dur": 0.1005', **kernel, args={**args, "correlation": first})
    p.raw('"ts": 0.3015, "dur": 0.0984999', **kernel, args={**args, "correlation": second})
    return Example(p, {"busy/other": 100 + 98, "idle/device": 102})


@example
def times_that_no_double_holds() -> Example:
    """Microseconds since 1970 with three decimals: a double knows them only to a quarter of a microsecond."""
    p = Profile(base=0)
    epoch = 1_760_000_000_000_000_000
    p.operator(PLAIN, epoch + 1, epoch + 9)
    p.launch(epoch + 3, epoch + 7, epoch + 11, epoch + 31)
    p.launch(epoch + 32, epoch + 35, epoch + 38, epoch + 41)
    return Example(p, {"busy/other": 23, "idle/outside_operators/main": 1, "idle/launch": 3, "idle/device": 3})


@example
def events_with_impossible_times_are_left_out() -> Example:
    """Kernels and calls without a duration, without a start, with a negative duration, or of more
    than a day.
    """
    p = one_gap()
    kernel = {"cat": "kernel", "name": "aten", "pid": 0, "tid": 7, "args": {"device": 0, "stream": 7}}
    call = {"cat": "cpu_op", "name": "aten::mm", "pid": MAIN, "tid": MAIN, "args": {}}
    for times in (
        '"ts": 0.210, "dur": -0.001',
        '"ts": 0.210',
        '"dur": 0.010',
        '"ts": 0.210, "dur": 86400000000.001',
    ):
        p.raw(times, **kernel)
        p.raw(times, **call)
    p.launch(280, 300, 300, 400)
    return Example(p, {"busy/other": 200, "idle/outside_operators/main": 80, "idle/launch": 20})


# --- Device time --------------------------------------------------------------------------------------------


@example
def two_compute_streams() -> Example:
    """stream 7  100 [=matmul====) 300
    stream 8          200 [=elementwise=) 400     the one that started first owns [200, 300)"""
    p = Profile()
    p.operator("aten::mm", 0, 20)
    p.launch(5, 15, 100, 300)
    p.operator("aten::add", 30, 50)
    p.launch(35, 45, 200, 400, stream=8)
    return Example(p, {"busy/matmul": 200, "busy/elementwise": 100}, hidden={"busy/elementwise": 100})


@example
def three_compute_streams() -> Example:
    """matmul [100, 200), elementwise [150, 400), reduction [120, 300).

    At 200 the reduction has started before the elementwise kernel, and owns until 300.
    """
    p = Profile()
    p.operator("aten::mm", 0, 20)
    p.launch(5, 15, 100, 200)
    p.operator("aten::add", 30, 50)
    p.launch(35, 45, 150, 400, stream=8)
    p.operator("aten::sum", 60, 80)
    p.launch(65, 75, 120, 300, stream=9)
    return Example(
        p,
        {"busy/matmul": 100, "busy/reduction": 100, "busy/elementwise": 100},
        hidden={"busy/reduction": 80, "busy/elementwise": 150},  # [120, 200) and [150, 300)
    )


@example
def an_account_does_not_hide_itself() -> Example:
    """Two matmuls overlap: the account is charged, so nothing of it is hidden. Time is a union, never
    a sum.
    """
    p = Profile()
    p.operator("aten::mm", 0, 50)
    p.launch(5, 15, 100, 300)
    p.launch(25, 35, 200, 400, stream=8)
    return Example(p, {"busy/matmul": 300})


@example
def two_operations_hidden_at_once() -> Example:
    """Two elementwise kernels under one matmul: the account is hidden for 100 ns, not 200."""
    p = Profile()
    p.operator("aten::mm", 0, 20)
    p.launch(5, 15, 100, 300)
    p.operator("aten::add", 30, 60)
    p.launch(32, 35, 150, 250, stream=8)
    p.launch(42, 45, 150, 250, stream=9)
    return Example(p, {"busy/matmul": 200}, hidden={"busy/elementwise": 100})


@example
def kernels_that_start_together() -> Example:
    """Both start at 100: the one that ends first, matmul [100, 200), goes before elementwise [100, 300)."""
    p = Profile()
    p.operator("aten::add", 0, 20)
    p.launch(5, 15, 100, 300)
    p.operator("aten::mm", 30, 50)
    p.launch(35, 45, 100, 200, stream=8)
    return Example(p, {"busy/matmul": 100, "busy/elementwise": 100}, hidden={"busy/elementwise": 100})


@example
def kernels_that_start_and_end_together() -> Example:
    """Then the name: a_kernel (elementwise) before b_kernel (matmul)."""
    p = Profile()
    p.operator("aten::mm", 0, 20)
    p.launch(5, 15, 100, 200, name="b_kernel")
    p.operator("aten::add", 30, 50)
    p.launch(35, 45, 100, 200, name="a_kernel", stream=8)
    return Example(p, {"busy/elementwise": 100}, hidden={"busy/matmul": 100})


@example
def communication_hidden_under_compute() -> Example:
    """communication  100 [============) 400
    matmul                   200 [==) 300"""
    p = Profile()
    p.launch(0, 10, 100, 400, name=NCCL, stream=30)
    p.operator("aten::mm", 20, 40)
    p.launch(25, 35, 200, 300)
    return Example(p, {"busy/communication": 200, "busy/matmul": 100}, hidden={"busy/communication": 100})


@example
def copy_under_compute_and_memset_under_copy() -> Example:
    """memset  50 [===) 150
    copy       100 [=============) 400
    matmul          200 [=) 250"""
    p = Profile()
    p.memset(50, 150, p.runtime("cudaMemsetAsync", 0, 5), stream=9)
    p.copy("DtoH (Device -> Pinned)", 100, 400, p.runtime("cudaMemcpyAsync", 10, 15), stream=20)
    p.operator("aten::mm", 20, 40)
    p.launch(25, 35, 200, 250)
    return Example(
        p,
        {"busy/memset": 50, "busy/copy/d2h": 100 + 150, "busy/matmul": 50},
        hidden={"busy/memset": 50, "busy/copy/d2h": 50},
    )


@example
def copy_under_communication() -> Example:
    """The copy [100, 300) started first, but communication [200, 400) goes before copies."""
    p = Profile()
    p.copy("HtoD (Pinned -> Device)", 100, 300, p.runtime("cudaMemcpyAsync", 0, 5), stream=20)
    p.launch(10, 20, 200, 400, name=NCCL, stream=30)
    return Example(p, {"busy/copy/h2d_pinned": 100, "busy/communication": 200}, hidden={"busy/copy/h2d_pinned": 100})


@example
def two_copies_at_once() -> Example:
    """The copy that started first is charged: [100, 300) to the device, [200, 400) from it."""
    p = Profile()
    p.copy("HtoD (Pinned -> Device)", 100, 300, p.runtime("cudaMemcpyAsync", 0, 5), stream=20)
    p.copy("DtoH (Device -> Pinned)", 200, 400, p.runtime("cudaMemcpyAsync", 10, 15), stream=21)
    return Example(p, {"busy/copy/h2d_pinned": 200, "busy/copy/d2h": 100}, hidden={"busy/copy/d2h": 100})


@example
def kinds_of_copies() -> Example:
    p = Profile()
    p.operator("aten::copy_", 0, 100)
    for number, kind in enumerate(
        [
            "HtoD (Pageable -> Device)",
            "HtoD (Pinned -> Device)",
            "HtoD (Host -> Device)",
            "DtoH (Device -> Pageable)",
            "DtoH (Device -> Pinned)",
            "DtoD (Device -> Device)",
            "PtoP (Device -> Device)",
        ]
    ):
        call = p.runtime("cudaMemcpyAsync", 10 * number, 10 * number + 5)
        p.copy(kind, 100 + 10 * number, 110 + 10 * number, call)
    return Example(
        p,
        {
            "busy/copy/h2d_pageable": 10,
            "busy/copy/h2d_pinned": 10,
            "busy/copy/h2d": 10,
            "busy/copy/d2h": 20,
            "busy/copy/d2d": 10,
            "busy/copy/p2p": 10,
        },
    )


@example
def rows_that_are_not_work() -> Example:
    """A GPU annotation and a `cuda_sync` row span the gap on the device's own track, and own nothing."""
    p = one_gap()
    p.raw('"ts": 0.100, "dur": 0.300', cat="gpu_user_annotation", name="step", pid=0, tid=7, args={})
    sync = {"cuda_sync_kind": "Stream Sync", "stream": 7, "device": 0, "correlation": 4711}
    p.raw('"ts": 0.100, "dur": 0.300', cat="cuda_sync", name="Stream Sync", pid=0, tid=7, args=sync)
    p.launch(280, 300, 300, 400)
    return Example(p, {"busy/other": 200, "idle/outside_operators/main": 80, "idle/launch": 20})


@example
def devices_have_their_own_ledgers() -> Example:
    """Device 1 has the gap [150, 180) while device 0 is busy; one thread launches for both."""
    p = one_gap()
    p.launch(30, 40, 120, 150, device=1)
    p.operator(PLAIN, 140, 190)
    p.launch(160, 170, 180, 200, device=1)
    return Example(p, {"busy/other": 50, "idle/dispatch": 10, "idle/launch": 10, "idle/device": 10}, device=1)


# --- Classes of busy time -----------------------------------------------------------------------------------


@example
def innermost_operator_with_a_class() -> Example:
    """[100, 200): an operator without a class inside aten::mm; [200, 300): aten::add inside aten::mm."""
    p = Profile()
    p.operator("aten::mm", 0, 90)
    p.operator(PLAIN, 5, 25)
    p.launch(10, 20, 100, 200)
    p.operator("aten::add", 35, 55)
    p.launch(40, 50, 200, 300)
    return Example(p, {"busy/matmul": 100, "busy/elementwise": 100})


@example
def optimizer_takes_all_under_it() -> Example:
    """An operator with a class inside an optimizer annotation is the optimizer's; collectives never are."""
    p = Profile()
    p.annotation("Optimizer.step#Adam.step", 0, 90)
    p.operator("aten::mul", 5, 25)
    p.launch(10, 20, 100, 200)
    p.launch(30, 40, 200, 300, name=NCCL, stream=30)
    return Example(p, {"busy/optimizer": 100, "busy/communication": 100})


@example
def the_kernels_own_name() -> Example:
    """No call says anything: the kernels' names do, where they do."""
    p = Profile()
    p.annotation("forward", 0, 90)
    p.launch(5, 10, 100, 200, name="triton_poi_fused_add_relu_0", call="cuLaunchKernel")
    p.launch(15, 20, 200, 300, name="ampere_sgemm_128x64_nn")
    p.launch(25, 30, 300, 400, name="kernel")
    p.kernel(NCCL, 400, 500, correlation=None)
    return Example(p, {"busy/fused": 100, "busy/matmul": 100, "busy/other": 100, "busy/communication": 100})


# --- Following the thread that is waited for ----------------------------------------------------------------


@example
def backward_waits_while_main_dispatches() -> Example:
    """The second kernel is launched by autograd's thread; before that, main worked.

                 200        250  270  280  290 300
    main         [operator  )
                   205 [launch) 215, its kernel is [400, 410)
    backward                     [evaluate_function )
                                      [launch)
    """
    p = one_gap()
    p.operator("mylib::forward", 200, 250)
    p.launch(205, 215, 400, 410)
    p.operator(EVALUATE, 270, 300, BACKWARD)
    p.launch(280, 290, 300, 400, thread=BACKWARD)
    return Example(
        p,
        {
            "busy/other": 210,
            "idle/dispatch": 5 + 35 + 10,  # main [200, 205) and [215, 250), backward [270, 280)
            "idle/launch": 10 + 10,
            "idle/outside_operators/backward": 20,  # [250, 270): nobody in the family did anything
            "idle/device": 10,
        },
    )


@example
def main_waits_while_backward_dispatches() -> Example:
    """The second kernel is launched by main; before that, autograd's thread worked.

                 200         260  280  285  295 300
    main                          [operator     )
                                       [launch)
    backward     [evaluate_func)
                   210 [launch) 220, its kernel is [400, 410)
    """
    p = one_gap()
    p.operator(EVALUATE, 200, 260, BACKWARD)
    p.launch(210, 220, 400, 410, thread=BACKWARD)
    p.operator(PLAIN, 280, 300)
    p.launch(285, 295, 300, 400)
    return Example(
        p,
        {
            "busy/other": 210,
            "idle/dispatch": 10 + 40 + 5,
            "idle/launch": 10 + 10,
            "idle/outside_operators/main": 20,  # [260, 280)
            "idle/device": 5,
        },
    )


@example
def main_waits_for_a_synchronization_of_backward() -> Example:
    p = one_gap()
    p.operator("WorkBackward0", 200, 250, BACKWARD)
    p.runtime("cudaStreamSynchronize", 210, 240, thread=BACKWARD)
    p.launch(280, 300, 300, 400)
    return Example(
        p,
        {
            "busy/other": 200,
            "idle/host_compute": 20,  # the backward operator launches nothing
            "idle/sync": 30,
            "idle/outside_operators/main": 30,
            "idle/launch": 20,
        },
    )


@example
def own_calls_go_before_those_of_others() -> Example:
    """Main is in an operator [200, 280) that launches nothing, while backward allocates: main's operator
    decides.
    """
    p = one_gap()
    p.operator(EVALUATE, 30, 40, BACKWARD)
    p.runtime("cudaMalloc", 200, 280, thread=BACKWARD)
    p.operator("mylib::cpu", 200, 280)
    p.launch(280, 300, 300, 400)
    return Example(p, {"busy/other": 200, "idle/host_compute": 80, "idle/launch": 20})


@example
def operators_of_the_family_go_before_frames() -> Example:
    """Main is in a Python frame [200, 280); backward has an operator in [200, 230) and frames of its own.

    [200, 230) backward's operator; [230, 280) main's frame, although backward has a frame too.
    """
    p = one_gap()
    p.frame("torch/autograd/graph.py(800): _engine_run_backward", 200, 280)
    p.operator(EVALUATE, 200, 230, BACKWARD)
    p.frame("layers.py(5): backward", 200, 280, BACKWARD)
    p.launch(280, 300, 300, 400)
    return Example(
        p,
        {
            "busy/other": 200,
            "idle/host_compute": 30,
            "idle/outside_operators/torch/autograd/graph.py(800): _engine_run_backward": 50,
            "idle/launch": 20,
        },
    )


@example
def frames_of_the_family_go_before_the_role() -> Example:
    """Backward launches and has nothing open; main is in a frame until 250."""
    p = one_gap()
    p.frame("train.py(9): step", 200, 250)
    p.operator(EVALUATE, 30, 40, BACKWARD)
    p.launch(280, 300, 300, 400, thread=BACKWARD)
    return Example(
        p,
        {
            "busy/other": 200,
            "idle/outside_operators/train.py(9): step": 50,
            "idle/outside_operators/backward": 30,
            "idle/launch": 20,
        },
    )


@example
def backward_threads_in_the_order_of_their_first_calls() -> Example:
    """Both backward threads are busy while main waits; the second one's first call, at 30, was earlier.

    So its operator [200, 260), which launches nothing, goes before the allocation [200, 280) of the first.
    """
    p = one_gap()
    p.operator(PLAIN, 400, 500)  # main is the thread with most time in forward operators
    p.operator(EVALUATE, 40, 50, BACKWARD)
    p.operator(EVALUATE, 30, 60, BACKWARD_2)
    p.runtime("cudaMalloc", 200, 280, thread=BACKWARD)
    p.operator("aten::view", 200, 260, BACKWARD_2)
    p.launch(280, 300, 300, 400)
    return Example(p, {"busy/other": 200, "idle/host_compute": 60, "idle/allocator": 20, "idle/launch": 20})


@example
def main_goes_before_another_backward_thread() -> Example:
    """One backward thread launches. Main (a sync) is asked before the other backward thread (an allocation),
    although that one's first call, at 1, is the earliest of all but main's."""
    p = one_gap()
    p.operator(EVALUATE, 1, 10, BACKWARD_2)
    p.operator(EVALUATE, 30, 40, BACKWARD)
    p.runtime("cudaStreamSynchronize", 200, 250)
    p.runtime("cudaMalloc", 200, 280, thread=BACKWARD_2)
    p.launch(280, 300, 300, 400, thread=BACKWARD)
    return Example(p, {"busy/other": 200, "idle/sync": 50, "idle/allocator": 30, "idle/launch": 20})


@example
def other_threads_follow_nobody() -> Example:
    """A worker launches; that main is in an operator then says nothing about the worker."""
    p = one_gap()
    p.operator(PLAIN, 190, 300)
    p.operator("aten::view", 30, 40, WORKER)
    p.launch(280, 300, 300, 400, thread=WORKER)
    return Example(p, {"busy/other": 200, "idle/outside_operators/other": 80, "idle/launch": 20})


@example
def other_threads_are_not_followed() -> Example:
    """Main launches; a worker that is neither main nor backward is in an operator."""
    p = one_gap()
    p.operator(PLAIN, 400, 600)  # main is the thread with most time in forward operators
    p.operator("aten::view", 200, 300, WORKER)
    p.launch(280, 300, 300, 400)
    return Example(p, {"busy/other": 200, "idle/outside_operators/main": 80, "idle/launch": 20})


@example
def other_processes_are_not_followed() -> Example:
    """Main launches; a backward thread of another process works."""
    p = one_gap()
    p.operator(EVALUATE, 200, 300, BACKWARD, process=200)
    p.launch(280, 300, 300, 400)
    return Example(p, {"busy/other": 200, "idle/outside_operators/main": 80, "idle/launch": 20})


@example
def step_marks_make_the_main_thread() -> Example:
    """The worker has more operators, but the marks are on the other thread: that one is main, the worker
    other.

    The worker's launch [280, 300) ends the gap: `other`. Without the mark it would be main.
    """
    p = one_gap()
    p.step(3, 0, 50)
    for start in (30, 40, 50):
        p.operator("aten::view", start, start + 5, WORKER)
    p.launch(280, 300, 300, 400, thread=WORKER)
    return Example(p, {"busy/other": 200, "idle/outside_operators/other": 80, "idle/launch": 20})


@example
def most_time_in_forward_operators_makes_the_main_thread() -> Example:
    """No marks. The thread of `one_gap` is 20 in an operator, the worker 60 in two. Backward is 40 in backward
    operators, one of which holds another operator for 100: that is no forward operator.

    So the worker is main, and follows backward's operator [200, 230).
    """
    p = one_gap()
    p.operator(EVALUATE, 40, 50, BACKWARD)
    p.operator(EVALUATE, 200, 230, BACKWARD)
    p.operator(EVALUATE, 400, 500, BACKWARD)
    p.operator("aten::mm", 401, 500, BACKWARD)
    p.operator("aten::view", 30, 60, WORKER)
    p.operator("aten::view", 60, 90, WORKER)
    p.launch(280, 300, 300, 400, thread=WORKER)
    return Example(
        p, {"busy/other": 200, "idle/host_compute": 30, "idle/outside_operators/main": 50, "idle/launch": 20}
    )


# --- Steps and window ---------------------------------------------------------------------------------------


def stepped(steps: list[tuple[int, int, int, int]], first: int = 4) -> Profile:
    """Steps of one kernel each: (mark's start, its end, the kernel's start, its end); launched 10 after the
    mark.
    """
    p = Profile()
    for number, (mark, until, start, end) in enumerate(steps, first):
        p.step(number, mark, until)
        p.operator(PLAIN, mark + 5, mark + 25)
        p.launch(mark + 10, mark + 20, start, end)
    return p


@example
def last_of_four_steps_is_left_out() -> Example:
    """host    0 [4  ) 100 [5  ) 200 [6  ) 300 [7  ) 400
    device       30 [=) 90  130 [=) 190  230 [=) 290  330 [=) 390

    Window [30, 330). In each gap of 40, such as [90, 130): 10 until the next mark's start and 5
    from there to the
    operator, both with nothing but a mark open; 5 dispatch; 10 launch; 10 device.
    """
    p = stepped([(0, 100, 30, 90), (100, 200, 130, 190), (200, 300, 230, 290), (300, 400, 330, 390)])
    return Example(
        p,
        {
            "busy/other": 3 * 60,
            "idle/outside_operators/main": 3 * 15,
            "idle/dispatch": 3 * 5,
            "idle/launch": 3 * 10,
            "idle/device": 3 * 10,
        },
        window=(30, 330),
        steps=(4, 6),
        step_count=3,
    )


@example
def last_of_three_steps_is_kept() -> Example:
    """As before with three: the last one ends with its last operation, at 290."""
    p = stepped([(0, 100, 30, 90), (100, 200, 130, 190), (200, 300, 230, 290)])
    return Example(
        p,
        {
            "busy/other": 3 * 60,
            "idle/outside_operators/main": 2 * 15,
            "idle/dispatch": 2 * 5,
            "idle/launch": 2 * 10,
            "idle/device": 2 * 10,
        },
        window=(30, 290),
        steps=(4, 6),
        step_count=3,
    )


@example
def one_step() -> Example:
    p = stepped([(0, 100, 30, 90)])
    return Example(p, {"busy/other": 60}, window=(30, 90), steps=(4, 4), step_count=1)


@example
def host_runs_ahead() -> Example:
    """The kernel of step 4 runs while the host is in step 6: steps live on the device's clock.

    host    0 [4  ) 100 [5  ) 200 [6  ) 300 [7  ) 400
    device             250 [==4==) 400 [==5==) 550   560 [==6==) 700 [==7==) 850
    """
    p = stepped([(0, 100, 250, 400), (100, 200, 400, 550), (200, 300, 560, 700), (300, 400, 700, 850)])
    return Example(
        p,
        {"busy/other": 150 + 150 + 140, "idle/device": 10},
        window=(250, 700),
        steps=(4, 6),
        step_count=3,
    )


@example
def work_of_earlier_steps_lies_before_the_window() -> Example:
    """Two kernels without a launch run first, [10, 20) and [40, 60); the window begins with step 4's kernel,
    at 80.
    """
    p = stepped([(0, 100, 80, 90), (100, 200, 130, 140)])
    p.kernel("kernel", 10, 20, correlation=None)
    p.kernel("kernel", 40, 60, correlation=4711)
    return Example(
        p,
        {
            "busy/other": 20,
            "idle/outside_operators/main": 15,
            "idle/dispatch": 5,
            "idle/launch": 10,
            "idle/device": 10,
        },
        window=(80, 140),
        steps=(4, 5),
        step_count=2,
    )


@example
def work_of_earlier_steps_judged_all_the_same() -> Example:
    """The same with everything judged: the gaps [20, 40) (no launch recorded) and [60, 80) (launched
    before).
    """
    p = work_of_earlier_steps_lies_before_the_window().profile
    return Example(
        p,
        {
            "busy/other": 10 + 20 + 20,
            "idle/untraced": 20,
            "idle/outside_operators/main": 15,
            "idle/dispatch": 5,
            "idle/launch": 10,
            "idle/device": 20 + 10,
        },
    )


@example
def work_launched_between_and_after_marks() -> Example:
    """Mark 4 [0, 50), mark 5 [100, 200). A launch at 70, between the annotations, is of step 4: its kernel
    [90, 95).

    A launch at 210, after the end of the last annotation, is of no step: its kernel [250, 300) is outside.
    """
    p = stepped([(0, 50, 30, 60), (100, 200, 130, 190)])
    p.launch(70, 80, 90, 95)
    p.launch(210, 220, 250, 300)
    return Example(
        p,
        {
            "busy/other": 30 + 5 + 60,
            # [60, 70) main, [70, 80) launch, [80, 90) device; [95, 105) main, then 5 dispatch, 10 launch, 10
            # device
            "idle/outside_operators/main": 10 + 10,
            "idle/launch": 10 + 10,
            "idle/device": 10 + 10,
            "idle/dispatch": 5,
        },
        window=(30, 190),
        steps=(4, 5),
        step_count=2,
    )


@example
def work_launched_before_the_first_mark() -> Example:
    """A launch at 0, before mark 4 at 100: its kernel [50, 60) belongs to no step, the window begins
    at 130.
    """
    p = Profile()
    p.launch(0, 10, 50, 60)
    for number, mark in ((4, 100), (5, 200)):
        p.step(number, mark, mark + 100)
        p.launch(mark + 10, mark + 20, mark + 30, mark + 90)
    return Example(
        p,
        {"busy/other": 120, "idle/outside_operators/main": 20, "idle/launch": 10, "idle/device": 10},
        window=(130, 290),
        steps=(4, 5),
        step_count=2,
    )


@example
def marks_that_overlap_on_the_host() -> Example:
    """Mark 4 is [0, 150), mark 5 [100, 200): host step 4 lasts to the start of mark 5.

    The launch at 110 is of step 5, so s(5) is the start of its kernel, 130. The kernel of step 4
    runs [30, 90).
    Three steps: the last, 6, ends with its last operation.
    """
    p = stepped([(0, 150, 30, 90), (100, 200, 130, 190), (200, 300, 230, 290)])
    return Example(
        p,
        {
            "busy/other": 180,
            "idle/outside_operators/main": 30,
            "idle/dispatch": 10,
            "idle/launch": 20,
            "idle/device": 20,
        },
        window=(30, 290),
        steps=(4, 6),
        step_count=3,
    )


@example
def batches_copied_ahead_do_not_move_the_steps() -> Example:
    """Each host step copies the next batch on a stream of its own, at the host's pace; the kernels, of 100 each,
    follow each other on the main stream, four steps behind. Steps of 100: window [100, 400).
    """
    p = Profile()
    for k in range(4):
        p.step(4 + k, 20 * k, 20 * k + 20)
        p.copy(
            "HtoD (Pinned -> Device)",
            20 * k + 5,
            20 * k + 15,
            p.runtime("cudaMemcpyAsync", 20 * k, 20 * k + 5),
            stream=20,
        )
        p.launch(20 * k + 6, 20 * k + 10, 100 + 100 * k, 200 + 100 * k)
    return Example(p, {"busy/other": 300}, window=(100, 400), steps=(4, 6), step_count=3)


@example
def steps_that_overlap_on_the_device() -> Example:
    """An operation of step 6 on another stream starts at 450, before the first one of step 5 at 500.

    s(5) = min(500, 450) = 450 = s(6): step 5 has no length and is not judged, but it was recorded: of four the
    last is left out. Steps of 200 and 350 (to 800): nothing is start-up. Window [250, 800), all launched long before.
    """
    p = stepped([(0, 50, 250, 400), (50, 100, 500, 600), (100, 150, 450, 700), (150, 200, 800, 900)])
    return Example(
        p,
        {"busy/other": 150 + 250, "idle/device": 50 + 100},
        window=(250, 800),
        steps=(4, 6),
        step_count=2,
    )


@example
def steps_without_device_work_do_not_count() -> Example:
    """Four marks, but step 5 launches nothing: three steps, so the last is kept, and step 4 lasts to s(6)."""
    p = Profile()
    for number, mark in ((4, 0), (5, 100), (6, 200), (7, 300)):
        p.step(number, mark, mark + 100)
        if number != 5:
            p.launch(mark + 10, mark + 20, mark + 30, mark + 100)
    return Example(
        p,
        {
            "busy/other": 3 * 70,
            "idle/outside_operators/main": 110 + 10,  # [100, 210) and [300, 310)
            "idle/launch": 20,
            "idle/device": 20,
        },
        window=(30, 400),
        steps=(4, 7),
        step_count=3,
    )


@example
def start_up_step() -> Example:
    """Steps of 201, 100, 100 and 100: the first is over twice the median. All is launched long before it
    runs.
    """
    p = stepped(
        [
            (0, 40, 300, 400),
            (40, 80, 501, 601),
            (80, 120, 601, 691),
            (120, 160, 701, 801),
            (160, 200, 801, 901),
        ]
    )
    return Example(
        p,
        {"busy/other": 290, "idle/device": 10},
        window=(501, 801),
        steps=(5, 7),
        step_count=3,
    )


@example
def no_start_up_at_twice_the_median() -> Example:
    """Steps of 200, 100, 100 and 100: not longer than twice the median."""
    p = stepped(
        [
            (0, 40, 300, 400),
            (40, 80, 500, 600),
            (80, 120, 600, 690),
            (120, 160, 700, 800),
            (160, 200, 800, 900),
        ]
    )
    return Example(
        p,
        {"busy/other": 390, "idle/device": 100 + 10},
        window=(300, 800),
        steps=(4, 7),
        step_count=4,
    )


@example
def median_of_an_even_number_is_the_middle() -> Example:
    """Steps of 260, 100, 160 and 50: the median is 130, twice that is 260, so the first step stays."""
    p = stepped(
        [
            (0, 40, 300, 560),
            (40, 80, 560, 660),
            (80, 120, 660, 820),
            (120, 160, 820, 870),
            (160, 200, 870, 900),
        ]
    )
    return Example(p, {"busy/other": 570}, window=(300, 870), steps=(4, 7), step_count=4)


@example
def two_start_up_steps_and_a_slow_one() -> Example:
    """Steps of 300, 250, 100, 400, 100, 100, 100: only the leading two are start-up, the slow one in the
    middle is not.
    """
    lengths, starts = [300, 250, 100, 400, 100, 100, 100, 50], [500]
    for length in lengths:
        starts.append(starts[-1] + length)
    p = stepped([(40 * k, 40 * k + 40, starts[k], starts[k + 1]) for k in range(8)])
    return Example(p, {"busy/other": 800}, window=(1050, 1850), steps=(6, 10), step_count=5)


@example
def the_window_may_cut_a_gap() -> Example:
    """Step 7 starts on the device with a kernel of zero length at 320, inside the gap [290, 330).

    So the window ends at 320, inside a gap that the kernel at 330 ends: its launch [310, 315) decides.
    [290, 310) main, [310, 315) launch, [315, 320) device.
    """
    p = Profile()
    for number, mark, start in ((4, 0, 30), (5, 100, 130), (6, 200, 230), (7, 300, 330)):
        p.step(number, mark, mark + 100)
        p.launch(mark + 10, mark + 15, start, start + 60)
    p.launch(302, 303, 320, 320)
    return Example(
        p,
        {
            "busy/other": 180,
            # Twice 20 main, 5 launch, 15 device. In the last gap: main but for the launch [302, 303).
            "idle/outside_operators/main": 20 + 20 + 19,
            "idle/launch": 5 + 5 + 1 + 5,
            "idle/device": 15 + 15 + 5,
        },
        window=(30, 320),
        steps=(4, 6),
        step_count=3,
    )


def test_without_steps_everything_is_judged(tmp_path: Path) -> None:
    p = Profile()
    p.operator(PLAIN, 0, 90)
    p.launch(10, 20, 100, 200, name="a")
    p.launch(30, 40, 210, 300, name="b")
    p.launch(50, 60, 300, 400, name="c")
    assert brute_force.steady_window(p.document()) is None
    found = explained(p.write(tmp_path / "profile.json.gz"), window=None)
    assert found["ledger"] == brute_force.ledger(p.document()) == {"busy/other": 290, "idle/device": 10}
    assert found["window"] == (100, 400)
    assert found["steps"] is None
