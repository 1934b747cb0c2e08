"""Each rule on loops with its fault, and on loops that look like it and are not.

Loops are imagined (`replaying`): what a step takes after a mend is worked out by hand from what is in it. What needs a
roofline is seen on recordings of an H200, whose gains were measured.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from advising import (
    BYTES,
    DATA,
    DEVICE_BOUND,
    DEVICE_STEP,
    FROM_WORKERS,
    GRAPH_GAP,
    HOST_BOUND,
    HOST_STEP,
    IN_LOOP,
    LONG,
    NEAR,
    SHORT,
    WARM,
    batch_taken,
    beside,
    calls,
    causes,
    collective,
    copied_out,
    explained,
    frees,
    item,
    marked,
    marked_beside,
    offers,
    only_at_first,
    operators,
    pageable,
    ranks,
    recorded,
    replayed_graph,
    seen,
    several,
    sized,
    sleeps,
    small_products,
    unprofiled,
    waits,
    within,
)
from replaying import CALL, GAP, LATENCY, RETURN, US, Body, Loop, looped, replay, setting_of

import gpuwhy
from gpuwhy.reports.model import Report
from gpuwhy.whatif.graph import Why

WARM_STEP = WARM * HOST_STEP

# --- Findings with the step after their mend ----------------------------------------------------------------
# The cause, what is in a step, the mend, and the step after it.

FAULTS: dict[str, tuple[str, list[Body], str, float]] = {
    # Of the loader's time 0.2 % are left, for taking a batch.
    "batches in the loop": (
        "input",
        [marked(IN_LOOP, 3_000 * US), HOST_BOUND],
        "loader_workers",
        0.002 * 3_000 * US + HOST_STEP,
    ),
    "slow workers": ("input", [marked(FROM_WORKERS, 3_000 * US), HOST_BOUND], "more_workers", HOST_STEP),
    "a checkpoint by its mark": (
        "checkpoint",
        [HOST_BOUND, marked("save_checkpoint", 3_000 * US)],
        "checkpoint_rarely",
        WARM_STEP,
    ),
    "a checkpoint by its bytes": (
        "checkpoint",
        [HOST_BOUND, several(5, copied_out(50 * US, tensor=BYTES), sleeps(400 * US))],
        "checkpoint_rarely",
        WARM_STEP,
    ),
    # 1024 bytes from pinned memory take a microsecond.
    "pageable copy": ("host_to_device_copy", [pageable(500 * US), DEVICE_BOUND], "pinned_prefetch", DEVICE_STEP),
    "pageable copy, pinned": (
        "host_to_device_copy",
        [pageable(500 * US), DEVICE_BOUND],
        "pinned",
        DEVICE_STEP + US + GAP,
    ),
    "results copied out": ("device_to_host_copy", [DEVICE_BOUND, copied_out(300 * US)], "keep_on_device", DEVICE_STEP),
    "a number read": ("synchronization", [sleeps(900 * US), DEVICE_BOUND, item], "no_item", DEVICE_STEP),
    "explicit wait": ("synchronization", [sleeps(900 * US), DEVICE_BOUND, waits], "no_synchronize", DEVICE_STEP),
    "sizes": ("synchronization", [sleeps(900 * US), DEVICE_BOUND, sized], "fixed_sizes", DEVICE_STEP),
    "memory": ("allocator", [HOST_BOUND, calls("cudaMalloc", 1_200 * US)], "keep_memory", HOST_STEP),
    "memory given back": ("allocator", [sleeps(900 * US), DEVICE_BOUND, frees], "keep_memory", DEVICE_STEP),
    "collections": (
        "garbage_collection",
        [HOST_BOUND, marked("gc.collect", 1_500 * US)],
        "gc_off_loop",
        WARM_STEP,
    ),
    "compiled each step": (
        "compile",
        [marked("backend_compile", 1_500 * US), HOST_BOUND],
        "no_recompile",
        WARM_STEP,
    ),
    "kernels loaded": ("compile", [HOST_BOUND, calls("cuModuleLoadData", 1_500 * US)], "warm_up", WARM_STEP),
    "operators on the host": (
        "host_compute",
        [HOST_BOUND, operators(1, None, 2_000 * US, "aten::normal_")],
        "compute_elsewhere",
        WARM_STEP,
    ),
    "sleep": ("outside_operators", [HOST_BOUND, sleeps(3_000 * US)], "out_of_loop", WARM_STEP),
    # 0.3 of 1 ms are left to launch a graph, and the device takes longer.
    "launches": ("launch", [HOST_BOUND], "cuda_graphs", 10 * (SHORT + GRAPH_GAP)),
    # Nothing is known of the kernels, so they grow with the batch; four times as much is over 1.25 steps.
    "launches of a small batch": ("launch", [HOST_BOUND], "larger_batch", 10 * (4 * SHORT + GAP)),
    # One operation in between takes a gap with it even where it takes no time.
    "exposed collective": (
        "communication",
        [DEVICE_BOUND, collective(800 * US)],
        "overlap_communication",
        DEVICE_STEP + GAP,
    ),
    # Beside the other kernels it still takes what it takes.
    "long collective": ("communication", [HOST_BOUND, collective(2_000 * US)], "overlap_communication", 2_000 * US),
    "many exposed collectives": (
        "communication",
        [DEVICE_BOUND, *[collective(40 * US)] * 20],
        "overlap_communication",
        DEVICE_STEP + 20 * GAP,
    ),
    # Of each eight one is left, each with the latency of one: 20 of 40 µs are one of 3 where they are all alike.
    "many collectives, joined": (
        "communication",
        [DEVICE_BOUND, *[collective(40 * US)] * 20],
        "fewer_collectives",
        DEVICE_STEP + 2.5 * (40 * US + GAP),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told_with_the_step_after_its_mend(name: str, folder: Path) -> None:
    cause, bodies, mend, after = FAULTS[name]
    report = explained(looped(*bodies), folder)
    assert report.verdict.cause == causes(report)[0] == cause
    assert offers(report)[mend] == pytest.approx(after, abs=NEAR)
    assert report.verdict.healthy is False


def test_the_loader_is_told_how_many_workers_keep_up(folder: Path) -> None:
    """3 ms of loading beside 0.9 ms of all the rest without the profiler: four workers, and one more."""
    report = explained(looped(marked(IN_LOOP, 3_000 * US), HOST_BOUND), folder)
    assert "num_workers=5" in (report.findings[0].mends[0].code or "")


def test_a_loader_whose_queue_is_being_used_up_is_told_before_the_loop_waits_for_it(folder: Path) -> None:
    """A batch is taken each step, and pinned each second one."""
    report = explained(looped(batch_taken(2), DEVICE_BOUND), folder)
    assert causes(report)[0] == "input"
    assert offers(report)["more_workers"] == pytest.approx(DEVICE_STEP, abs=NEAR)


@pytest.mark.parametrize("kernel", [SHORT, 400 * US], ids=["host-bound", "device-bound"])
@pytest.mark.parametrize("others", [1, 2])
def test_a_rank_that_is_late_alone_is_told_with_what_it_does_meanwhile(kernel: int, others: int, folder: Path) -> None:
    report = gpuwhy.explain(*ranks(folder, lambda _: (*[0] * others, 5_000 * US), kernel))
    one = report.findings[0]
    assert report.verdict.cause == one.cause == "straggler"
    assert one.rank == others
    assert causes(report).count("straggler") == 1
    assert "outside_operators" in one.evidence[1]
    assert "5.00 ms a step longer" in one.evidence[1]
    # Without its sleep: the last operator's kernel starts behind its launch, or the device has all to do from the
    # first one on; and the wait returns.
    each = unprofiled(100 * US - CALL, CALL)
    host = 6 * each + unprofiled(CALL) + LATENCY + kernel
    device = each + LATENCY + 6 * kernel + 50 * US + 6 * GAP
    assert one.mends[0].step_after_ns.mid == pytest.approx(max(host, device) + RETURN, abs=NEAR)


def test_bytes_that_no_integer_holds_together_are_summed_all_the_same(folder: Path) -> None:
    """Each copy claims 2 EiB, and those of seven steps together 14: an integer of 64 bits ends at 8."""
    large = 1 << 61
    report = explained(looped(pageable(500 * US, large), DEVICE_BOUND, copied_out(300 * US, size=large)), folder)
    told = {one.cause: one.evidence[0] for one in report.findings}
    assert "2,305,843 TB" in told["host_to_device_copy"]
    assert "2,305,843 TB" in told["device_to_host_copy"]


def test_kernels_too_small_for_a_busy_device_are_told(folder: Path) -> None:
    """200 products of 64 × 64 × 64 in 5 µs each, launched faster than the device is done with them."""
    report = explained(looped(small_products(200, 5 * US, 5 * US)), folder)
    assert causes(report) == ["device_latency"]
    assert report.findings[0].evidence[0].startswith("1.00 of 1.30 ms a step")
    assert report.findings[0].evidence[1].startswith("0.30 of 1.30 ms a step")
    assert list(offers(report)) == ["larger_batch"]


# --- What looks like it, and is not -------------------------------------------------------------------------
# Where a rule cannot know whether its mend brings something, the replay does: the mend is then not offered.

NOT_SEEN: dict[str, tuple[str, list[Body]]] = {
    "batches that are ready": ("input", [marked(FROM_WORKERS, 50 * US), operators(20, SHORT)]),
    "batches that are pinned as they are taken": ("input", [batch_taken(1), DEVICE_BOUND]),
    "copies of floats": ("checkpoint", [HOST_BOUND, several(5, copied_out(50 * US), sleeps(400 * US))]),
    "batches that workers had ready": (
        "input",
        [marked(FROM_WORKERS, 50 * US), operators(10, SHORT), calls("cudaMalloc", 60 * US)],
    ),
    "short copies in": ("host_to_device_copy", [pageable(10 * US), DEVICE_BOUND]),
    "one number is no result": ("device_to_host_copy", [sleeps(900 * US), DEVICE_BOUND, item]),
    "raw storages are no result": ("device_to_host_copy", [HOST_BOUND, copied_out(50 * US, tensor=BYTES)]),
    "no call that waits": ("synchronization", [DEVICE_BOUND, calls("cudaEventRecord", 300 * US)]),
    "memory of the first step": ("allocator", [only_at_first(calls("cudaMalloc", 8_000 * US)), HOST_BOUND]),
    "another thread collects": ("garbage_collection", [HOST_BOUND, marked_beside("gc.collect", 900 * US)]),
    "compiled at first": ("compile", [only_at_first(marked("backend_compile", 8_000 * US)), HOST_BOUND]),
    "views": ("host_compute", [HOST_BOUND, operators(30, None, 40 * US, "aten::view")]),
    "gaps between operators": ("outside_operators", [operators(10, SHORT, pause=400 * US)]),
    "a sleep within an operator": (
        "outside_operators",
        [HOST_BOUND, within("aten::normal_", sleeps(3_000 * US), kind="operator")],
    ),
    "many launches for a busy device": ("launch", [operators(200, 20 * US, 10 * US)]),
    "hidden collectives": ("communication", [beside(800 * US), DEVICE_BOUND]),
    "small kernels for a slow host": ("device_latency", [small_products(50, 8 * US, 32 * US)]),
    "large kernels with gaps": ("device_latency", [DEVICE_BOUND]),
}


@pytest.mark.parametrize("name", NOT_SEEN)
def test_what_only_looks_like_a_fault_is_not_seen(name: str, folder: Path) -> None:
    cause, bodies = NOT_SEEN[name]
    loop = looped(*bodies)
    assert cause not in seen(loop, folder)
    assert cause not in causes(explained(loop, folder))


FREE_OF_CHARGE: dict[str, tuple[str, list[Body]]] = {
    "pinned copies beside kernels": (
        "host_to_device_copy",
        [beside(500 * US, "HtoD (Pinned -> Device)"), DEVICE_BOUND],
    ),
    "a number read in 11 ms": ("synchronization", [operators(60, LONG), item]),
    "memory while the device is busy": ("allocator", [DEVICE_BOUND, calls("cudaMalloc", 600 * US)]),
    "a collection while the device is busy": ("garbage_collection", [DEVICE_BOUND, marked("gc.collect", 600 * US)]),
    "kernels loaded while the device is busy": ("compile", [DEVICE_BOUND, calls("cuModuleLoadData", 600 * US)]),
    "compiling while the device is busy": ("compile", [DEVICE_BOUND, marked("backend_compile", 600 * US)]),
    "operators on the host while it is busy": (
        "host_compute",
        [DEVICE_BOUND, operators(1, None, 600 * US, "aten::normal_")],
    ),
    "batches made while the device is busy": ("input", [marked(IN_LOOP, 600 * US), DEVICE_BOUND]),
    "a checkpoint while the device is busy": ("checkpoint", [DEVICE_BOUND, marked("save_checkpoint", 600 * US)]),
    "a sleep while the device is busy": ("outside_operators", [operators(20, LONG), sleeps(1_200 * US)]),
}


@pytest.mark.parametrize("name", FREE_OF_CHARGE)
def test_what_costs_nothing_is_not_told_though_it_is_seen(name: str, folder: Path) -> None:
    cause, bodies = FREE_OF_CHARGE[name]
    loop = looped(*bodies)
    assert cause in seen(loop, folder)
    report = explained(loop, folder)
    assert report.findings == []
    assert report.verdict.healthy is not False


def tiny_products(loop: Any) -> None:
    """Products of 64 × 64 in fp32, each over before the device is full."""
    for _ in range(200):
        start, loop.now = loop.now, loop.now + 5 * US
        loop.profile.operator("aten::mm", start, loop.now, inputs=[("float", [64, 64])] * 2)
        begin = loop.enqueued()
        loop.free = begin + 5 * US
        loop.profile.launch(loop.now - CALL, loop.now, begin, loop.free, name="sm90_xmma_gemm_f32f32")


def test_kernels_too_small_for_the_device_gain_nothing_by_another_precision(folder: Path) -> None:
    assert "precision" not in causes(explained(looped(tiny_products), folder))


# All but the last step are judged: of two ranks one is late in four of seven, and then two of three more often.
TURNS = [[0, 1] * 4 + [0], [0, 1] * 4, [0, 1, 2] * 3 + [0], [0, 1, 2, 0, 1, 2, 0, 2, 0]]


@pytest.mark.parametrize("turns", TURNS, ids=str)
def test_ranks_that_are_late_in_turns_have_no_straggler(turns: list[int], folder: Path) -> None:
    late = [tuple(5_000 * US * (rank == turn) for rank in range(max(turns) + 1)) for turn in turns]
    report = gpuwhy.explain(*ranks(folder, lambda step: late[step], SHORT, len(turns)))
    told = {cause for one in report.findings for cause in (one.cause, *one.explains)}
    assert told
    assert "straggler" not in told


# --- Which mends a slow launch has --------------------------------------------------------------------------

OPTIMIZER = "Optimizer.step#AdamW.step"
LAUNCHING: dict[str, tuple[list[Body], set[str]]] = {
    "plain": ([HOST_BOUND], {"cuda_graphs"}),
    "graphs are replayed already": ([replayed_graph(20, 5 * US), HOST_BOUND], set()),
    "sizes that the host must know": ([HOST_BOUND, sized], set()),
    "memory of the driver, over 3 % of launching": ([HOST_BOUND, calls("cudaMalloc", 40 * US)], set()),
    "hardly any memory of the driver": ([HOST_BOUND, calls("cudaMalloc", 20 * US)], {"cuda_graphs"}),
    "an optimizer of many kernels": (
        [HOST_BOUND, within(OPTIMIZER, operators(10, 3 * US, name="aten::mul_"))],
        {"cuda_graphs", "fused_optimizer"},
    ),
    "a fused optimizer": (
        [HOST_BOUND, within(OPTIMIZER, operators(1, 30 * US, 1_000 * US, "aten::_fused_adamw_"))],
        {"cuda_graphs"},
    ),
}


@pytest.mark.parametrize("name", LAUNCHING)
def test_a_slow_launch_has_the_mends_that_the_loop_allows(name: str, folder: Path) -> None:
    bodies, mends = LAUNCHING[name]
    found = seen(looped(*bodies), folder)["launch"]
    assert {mend.id for mend in found.mends} - {"larger_batch"} == mends


def test_a_fused_optimizer_leaves_its_time_for_a_step_and_for_each_tensor(folder: Path) -> None:
    """Of 1 ms for ten tensors 0.3 ms and 3 µs each are left: 0.33 of what it takes without the profiler."""
    report = explained(looped(HOST_BOUND, within(OPTIMIZER, operators(10, 3 * US, name="aten::mul_"))), folder)
    assert offers(report)["fused_optimizer"] == pytest.approx(1.33 * HOST_STEP, abs=NEAR)


# --- Recordings ---------------------------------------------------------------------------------------------

MEASURED = {
    "unseen/single_precision": ("precision", "precision"),
    "waste/precision_convolution": ("precision", "precision"),
    "unseen/odd_width": ("shape", "shape"),
    "unseen/written_out": ("attention", "fused_attention"),
    "waste/layout": ("layout", "channels_last"),
    "unseen/checkpointed": ("recompute", "no_recompute"),
    "unseen/eager_gates": ("elementwise", "compile"),
    "waste/unfused_optimizer": ("elementwise", "fused_optimizer"),
    "waste/casts_back_and_forth": ("elementwise", "one_type"),
}
CLOSE = 1.25


@cache
def report_of(name: str) -> Report:
    return recorded(name)


@cache
def truth(folder: str) -> dict[str, Any]:
    return {one["name"]: one for one in json.loads((DATA / folder / "truth.json").read_text())}


@pytest.mark.parametrize("name", MEASURED)
def test_a_waste_comes_first_with_about_the_gain_that_was_measured(name: str) -> None:
    cause, mend = MEASURED[name]
    first = report_of(name).findings[0]
    assert (first.cause, first.mends[0].id) == (cause, mend)
    folder, pair = name.split("/")
    measured = truth(folder)[pair]["after_over_before"]
    assert measured / CLOSE < first.mends[0].after_over_before.mid < measured * CLOSE


LOOK_ALIKES = [
    ("waste/fp64_is_no_fault", "precision"),  # an H200 multiplies fp64 as fast as fp32
    ("waste/healthy_layers", "precision"),  # bf16
    ("unseen/single_precision", "shape"),  # powers of two
    ("waste/healthy_transformer", "attention"),  # fused
    ("waste/healthy_transformer", "recompute"),  # a backward pass that computes nothing again
    ("waste/unfused_norms", "recompute"),
    ("waste/unfused_norms", "attention"),  # there is none
    ("waste/unfused_norms", "layout"),
    ("waste/healthy_layers", "elementwise"),  # compiled
    ("waste/healthy_transformer", "elementwise"),
    ("counters/prefill_attention", "attention"),
    ("counters/convolution", "layout"),  # channels-last
    ("counters/convolution", "precision"),
    ("unseen/odd_width", "precision"),  # slow, but in bf16
]


@pytest.mark.parametrize(("name", "cause"), LOOK_ALIKES)
def test_a_recording_without_that_waste_is_not_blamed_for_it(name: str, cause: str) -> None:
    told = {one for found in report_of(name).findings for one in (found.cause, *found.explains)}
    assert cause not in told


# --- All of them --------------------------------------------------------------------------------------------

CAUSES = """
input host_compute host_to_device_copy device_to_host_copy synchronization launch allocator compile checkpoint
garbage_collection host_contention outside_operators precision shape layout elementwise attention recompute
communication straggler pipeline_bubble device_latency dram_bandwidth compute capacity healthy unknown
"""


@pytest.mark.parametrize("name", [*FAULTS, *MEASURED])
def test_findings_have_a_known_cause_numbers_and_what_would_refute_them(name: str, folder: Path) -> None:
    report = explained(looped(*FAULTS[name][1]), folder) if name in FAULTS else report_of(name)
    assert report.findings
    for one in report.findings:
        assert {one.cause, *one.explains} <= set(CAUSES.split())
        assert re.search(r"\d", " ".join(one.evidence)), one
        assert all((one.title, one.refuted_by, *one.evidence))
        assert one.mends
        for mend in one.mends:
            assert mend.text
            assert mend.after_over_before.mid <= 0.97
            assert mend.after_over_before.low <= mend.after_over_before.mid <= mend.after_over_before.high


@pytest.mark.parametrize("kind", ["DtoD (Device -> Device)", "DtoH (Device -> Pinned)", "HtoD (Pinned -> Device)"])
def test_a_copy_that_nobody_waits_for_is_no_stop_however_long_its_call(kind: str, folder: Path) -> None:
    """The call takes 40 µs of the host's time, and the copy ends within it."""

    def copied(loop: Loop) -> None:
        call, loop.now = loop.now, loop.now + 40 * US
        start = max(call + CALL, loop.free + GAP)
        loop.free = start + 10 * US
        loop.profile.copy(kind, start, loop.free, loop.profile.runtime("cudaMemcpyAsync", call, loop.now), size=1024)

    graph = setting_of(replay(looped(HOST_BOUND, copied), folder)).graph
    assert not (graph.edges.kind == Why.BLOCKING).any()


@pytest.mark.parametrize(("times", "told"), [(1, False), (4, True)])
def test_one_long_stretch_in_several_steps_is_not_the_loops(times: int, told: bool, folder: Path) -> None:
    """40 ms in one step of eight, or 10 ms in each second one."""

    def stalls(loop: Loop) -> None:
        step = len(loop.begins)
        if step == 4 if times == 1 else step % 2:
            loop.now += 40 * US * 1_000 // times

    assert ("outside_operators" in seen(looped(HOST_BOUND, stalls, steps=9), folder)) is told
