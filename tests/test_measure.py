"""Measuring ceilings: the real code on torch's CPU device, with a clock of our own where a figure must be exact."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: nothing can be measured")

from gpuwhy.errors import GpuwhyError  # noqa: E402
from gpuwhy.roofline import measure_links, measure_matmul  # noqa: E402
from gpuwhy.roofline.ceilings import AllReduce, Ceilings, encode, load, save  # noqa: E402
from gpuwhy.roofline.measure import find_device, in_use, measure, measure_dram, measure_on  # noqa: E402
from gpuwhy.roofline.measure_driver import Driver  # noqa: E402
from gpuwhy.roofline.measure_links import all_reduce, links  # noqa: E402
from gpuwhy.roofline.measure_matmul import Precision, precisions  # noqa: E402
from gpuwhy.roofline.measure_timing import Backend, Plan, Run, Thing, in_turns, spread  # noqa: E402

products = measure_matmul.measure_matmul
SHORT = Plan(rounds=3, round_ns=2e5, budget_ns=2e7)
MS = 1e6


class Clockwork(Backend):
    """A device on which time passes only by what a run says that it takes, plus `launch_ns` of host for each."""

    def __init__(self, launch_ns: float = 0, free: int = 2 << 30) -> None:
        super().__init__()
        self.now = 0.0
        self.launch_ns, self.free = launch_ns, free
        self.graphs: list[int] = []
        self.timed: list[int] = []

    def takes(self, ns: float, after: Callable[[], None] = lambda: None) -> Run:
        def run() -> None:
            self.now += ns
            after()

        return run

    def time_ns(self, run: Run, repeats: int) -> float:
        start = self.now
        for _ in range(repeats):
            run()
            self.now += self.launch_ns
        self.timed.append(repeats)
        return self.now - start

    def graph(self, run: Run, count: int) -> Run | None:
        self.graphs.append(count)

        def replay() -> None:
            for _ in range(count):
                run()

        return replay if self.launch_ns else None

    def free_bytes(self) -> int:
        return self.free


def nothing(_: str) -> None: ...


# ---- Timing ----


@pytest.mark.parametrize("values", [[1.0], [1.0, 2.0], [5.0, 1.0, 3.0], [4.0, 4.0, 9.0, 1.0, 2.0, 7.0, 3.0]])
def test_a_spread_is_median_and_percentiles(values: list[float]) -> None:
    found = spread(values)
    assert [found.low, found.mid, found.high] == pytest.approx(np.percentile(values, [10, 50, 90]))


def test_a_rate_is_work_over_time() -> None:
    clock = Clockwork()
    rates = in_turns(clock, [Thing("a", clock.takes(2 * MS), 8e6), Thing("b", clock.takes(7 * MS), 7e6)], Plan(), [])
    assert rates["a"].mid == pytest.approx(4e9)
    assert rates["b"].low == rates["b"].high == pytest.approx(1e9)


def test_rounds_are_long_enough_and_in_turns() -> None:
    clock = Clockwork()
    turns: list[str] = []
    things = [
        Thing(name, clock.takes(ns, lambda name=name: turns.append(name)), 1)  # type: ignore[misc]
        for name, ns in (("a", 10 * MS), ("b", 30 * MS))
    ]
    in_turns(clock, things, Plan(rounds=4, round_ns=20 * MS), [])
    assert "".join(turns).endswith("aab" * 4)


def test_what_the_device_does_faster_than_the_host_launches_it_runs_in_a_graph() -> None:
    """Ten times as long on the host as on the device: only a graph shows the device's own 1 GB/s."""
    clock = Clockwork(launch_ns=10_000)
    rates = in_turns(clock, [Thing("small", clock.takes(1000), 1000)], Plan(), [])
    assert len(clock.graphs) == 1
    assert rates["small"].mid == pytest.approx(1e9, rel=0.2)
    in_turns(clock, [Thing("large", clock.takes(MS), 1)], Plan(), [])
    assert len(clock.graphs) == 1


def test_what_takes_too_long_is_left_out() -> None:
    clock, notes = Clockwork(), list[str]()
    rates = in_turns(
        clock, [Thing("long", clock.takes(900 * MS), 1), Thing("short", clock.takes(MS), 1)], Plan(), notes
    )
    assert list(rates) == ["short"]
    assert notes == ["long: left out, a single run takes 0.9 s"]


def test_slow_rounds_are_fewer() -> None:
    clock = Clockwork()
    in_turns(clock, [Thing("slow", clock.takes(400 * MS), 1)], Plan(rounds=7, least_rounds=3, budget_ns=1600 * MS), [])
    assert len(clock.timed) == 1 + 4
    clock.timed.clear()
    in_turns(clock, [Thing("slow", clock.takes(400 * MS), 1)], Plan(rounds=7, least_rounds=3, budget_ns=1 * MS), [])
    assert len(clock.timed) == 1 + 3


@pytest.mark.parametrize("when", [1, 5])
def test_what_fails_is_noted_and_spares_the_rest(when: int) -> None:
    """At the first run, or in a later round."""
    clock, notes, count = Clockwork(), list[str](), 0

    def fail() -> None:
        nonlocal count
        count += 1
        if count >= when:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB\nmore")

    rates = in_turns(
        clock, [Thing("bad", clock.takes(20 * MS, fail), 1), Thing("good", clock.takes(MS), 1)], Plan(), notes
    )
    assert list(rates) == ["good"]
    assert notes == ["bad: out of memory"]


def test_an_interrupt_is_no_failure_to_note() -> None:
    clock, notes = Clockwork(), list[str]()

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        in_turns(clock, [Thing("a", clock.takes(1, interrupt), 1)], Plan(), notes)
    assert not notes


# ---- Matrix products ----


def kind(clock: Clockwork, name: str, ns_of: Callable[[int], float], bytes_: int = 4) -> Precision:
    return Precision(name, bytes_, lambda _, size: clock.takes(ns_of(size)))


def test_flops_are_two_for_each_product_and_sum() -> None:
    clock = Clockwork()
    (found,) = products(clock, [kind(clock, "bf16", lambda n: 2 * MS)], [1000], Plan(), [], nothing)
    assert (found.precision, found.size) == ("bf16", 1000)
    assert found.flops_per_s.mid == pytest.approx(2 * 1000**3 / 2e-3)


def test_sizes_end_where_memory_or_patience_end() -> None:
    clock, notes = Clockwork(free=100_000_000), list[str]()
    kinds = [
        kind(clock, "quick", lambda n: n**3 / 1e3),
        kind(clock, "slow", lambda n: n**3 / 10),  # 0.1 s at 1024, 0.86 s at 2048
        kind(clock, "wide", lambda n: n**3 / 1e3, bytes_=24),
    ]
    found = products(clock, kinds, [1024, 2048, 4096, 8192], Plan(), notes, nothing)
    sizes = {name: [m.size for m in found if m.precision == name] for name in ("quick", "slow", "wide")}
    # 70 of 100 MB may be taken: 'quick' needs 67 at 4096; 'wide' 25 at 1024, and 101 at 2048.
    assert sizes == {"quick": [1024, 2048, 4096], "slow": [1024], "wide": [1024]}
    assert not notes


def test_a_precision_that_fails_is_noted_once() -> None:
    clock, notes = Clockwork(), list[str]()

    def make(_: Any, size: int) -> Run:
        raise NotImplementedError("not for this device")

    found = products(
        clock, [Precision("int8", 1, make), kind(clock, "bf16", lambda n: MS)], [16, 32], Plan(), notes, nothing
    )
    assert {m.precision for m in found} == {"bf16"}
    assert notes == ["int8 products of 16: NotImplementedError: not for this device"]


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        ("7.0", {"fp64", "fp32", "fp16", "bf16", "int8"}),
        ("8.0", {"fp64", "fp32", "tf32", "fp16", "bf16", "int8"}),
        ("8.9", {"fp64", "fp32", "tf32", "fp16", "bf16", "int8", "fp8"}),
        ("10.0", {"fp64", "fp32", "tf32", "fp16", "bf16", "int8", "fp8"}),
        ("gfx90a", {"fp64", "fp32", "fp16", "bf16", "int8"}),
        ("gfx942", {"fp64", "fp32", "fp16", "bf16", "int8", "fp8"}),
        ("gfx950", {"fp64", "fp32", "fp16", "bf16", "int8", "fp8"}),
    ],
)
def test_a_device_is_asked_for_what_it_has(
    capability: str, expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "NVIDIA_TF32_OVERRIDE", "HIPBLASLT_ALLOW_TF32"):
        monkeypatch.delenv(variable, raising=False)
    assert {kind.name for kind in precisions(capability, [])} == expected
    assert measure_matmul._fp8_type("gfx942") == torch.float8_e4m3fnuz
    assert measure_matmul._fp8_type("gfx950") == torch.float8_e4m3fn


def test_variables_that_overrule_the_program_withhold_the_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "1")
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    notes: list[str] = []
    assert not {kind.name for kind in precisions("9.0", notes)} & {"fp32", "tf32"}
    assert len(notes) == 2


def test_products_are_of_normal_random_numbers() -> None:
    """The real products on the CPU: what is multiplied is neither zero nor constant."""
    seen: dict[str, Any] = {}
    mm, int_mm = torch.mm, torch._int_mm
    for found in precisions("8.0", []):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "mm", lambda a, b, out, name=found.name: seen.update({name: a}) or mm(a, b, out=out))
            patch.setattr(torch, "_int_mm", lambda a, b: seen.update(int8=a) or int_mm(a, b))
            found.make(torch.device("cpu"), 64)()
    assert set(seen) == {"fp64", "fp32", "tf32", "fp16", "bf16", "int8"}
    for name, data in seen.items():
        scale = 32 if name == "int8" else 1
        assert abs(float(data.double().mean())) < 0.1 * scale, name
        assert float(data.double().std()) == pytest.approx(scale, rel=0.1), name


# ---- torch's settings ----


def settings() -> tuple[Any, ...]:
    newer = [
        getattr(library.matmul, "fp32_precision", None) for library in (torch.backends.cuda, torch.backends.mkldnn)
    ]
    state = torch.random.get_rng_state()
    return (
        torch.get_float32_matmul_precision(),
        *newer,
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        state.sum(),
    )


@pytest.mark.parametrize("before", ["highest", "high"])
@pytest.mark.parametrize("failure", [None, RuntimeError("x"), KeyboardInterrupt()])
def test_torch_is_set_afterwards_as_before(
    before: str, failure: BaseException | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with measure_matmul.settings_restored():  # what this test sets is undone too
        torch.set_float32_matmul_precision(before)
        was = settings()

        def progress(text: str) -> None:
            if failure is not None and text == "memory":
                raise failure

        def go() -> Ceilings:
            return measured(progress)

        if failure is None:
            go()
        else:
            with pytest.raises(type(failure)):
                go()
        assert settings() == was


def test_the_default_settings_stay_the_defaults() -> None:
    script = (
        "import torch; from gpuwhy.roofline.measure_matmul import settings_restored\n"
        "def now(): return [getattr(x, 'fp32_precision', None) for x in "
        "(torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)]\n"
        "was = now()\n"
        "with settings_restored(): torch.set_float32_matmul_precision('high')\n"
        "assert now() == was, (now(), was)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


# ---- All of it ----


def measured(on_progress: Callable[[str], None] = nothing, backend: Backend | None = None) -> Ceilings:
    return measure_on(
        backend or Backend(),
        Driver(None),
        name="a host",
        sm_count=None,
        capability=None,
        on_progress=on_progress,
        plan=SHORT,
        sizes=(32, 64),
        dram_bytes=1 << 20,
        link_bytes=1 << 16,
    )


def test_the_whole_measurement_runs_on_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWHY_CACHE", str(tmp_path))
    monkeypatch.delenv("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", raising=False)
    stages: list[str] = []
    found = measured(stages.append)
    assert stages[0] == "launches"
    assert len(stages) >= 6
    assert (found.device, found.sm_count, found.how, found.l2_bytes, found.l2_bytes_per_s) == (
        "a host",
        None,
        "measured",
        None,
        None,
    )
    assert {"fp64", "fp32", "bf16", "fp16"} <= set(found.flops)
    details = found.details
    assert details is not None
    for precision, rate in found.flops.items():
        assert rate == max(m.flops_per_s.mid for m in details.matmul if m.precision == precision)
    assert details.dram.read is not None
    assert details.dram.copy is not None
    assert found.dram_bytes_per_s == max(details.dram.read.mid, details.dram.copy.mid)
    assert details.links.h2d_pageable is not None
    # What a host does not have is unknown, not zero.
    assert details.links.h2d_pinned is None
    assert details.launch.eager_ns is not None
    assert details.launch.graph_node_ns is None
    assert details.launch.kernel_ns is None
    assert (details.peers, details.nccl, details.l2, details.driver, details.clocks_mhz.sm) == (None,) * 5
    assert any("graph" in note for note in details.notes)
    assert found.source.startswith("measured here on 20")
    assert f"with torch {torch.__version__.split('+')[0]}" in found.source
    assert load(save(found)) == found == msgspec.json.decode(encode(found), type=Ceilings)


def test_memory_that_cannot_be_measured_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr("gpuwhy.roofline.measure._movers", fail)
    with pytest.raises(GpuwhyError, match="its memory could not be measured"):
        measured()


def test_out_of_memory_is_tried_again_with_less(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, counts = Clockwork(free=8 << 30), list[int]()

    def movers(_: Backend, count: int) -> list[Thing]:
        counts.append(count)
        if len(counts) < 3:
            raise RuntimeError("CUDA out of memory")
        return [Thing("read", clock.takes(MS), 4e6)]

    monkeypatch.setattr("gpuwhy.roofline.measure._movers", movers)
    notes: list[str] = []
    found = measure_dram(clock, 1 << 30, Plan(), notes)
    assert counts == [1 << 28, 1 << 26, 1 << 24]
    assert found.read is not None
    assert found.read.mid == pytest.approx(4e9)
    assert (found.write, notes) == (None, [])


class Millisecond(Backend):
    """A device on which each run takes a millisecond."""

    def time_ns(self, run: Run, repeats: int) -> float:
        run()
        return repeats * MS


def test_memory_and_copies_count_their_bytes() -> None:
    """A copy within the device reads and writes, one from or to the host passes the link once."""
    dram = measure_dram(Millisecond(), 4_000_000, Plan(), [])
    assert [figure and figure.mid for figure in (dram.read, dram.write, dram.copy)] == pytest.approx([4e9, 4e9, 8e9])
    host = links(Millisecond(), Plan(), [], nbytes=1_000_000)
    assert [figure and figure.mid for figure in (host.h2d_pageable, host.d2h_pageable)] == pytest.approx([1e9, 1e9])
    assert (host.h2d_pinned, host.d2h_pinned) == (None, None)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_one_error_says_so() -> None:
    with pytest.raises(GpuwhyError, match="finds no GPU to measure"):
        find_device(None)


# ---- All-reduce ----

needs_gloo = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()), reason="torch without gloo"
)


@needs_gloo
def test_an_all_reduce_over_processes_gives_its_bus_bandwidth() -> None:
    notes: list[str] = []
    found = all_reduce(2, notes, library="gloo", nbytes=1 << 16, patience_s=120)
    assert isinstance(found, AllReduce), notes
    assert (found.devices, found.bytes) == (2, 1 << 16)
    assert 0 < found.bus_bytes_per_s.low <= found.bus_bytes_per_s.mid <= found.bus_bytes_per_s.high < 1e12
    assert not notes


def alive() -> list[str]:
    """Processes of this one that are still there."""
    listed = subprocess.run(
        ["ps", "-o", "args=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=False
    )
    return [line for line in listed.stdout.splitlines() if "measure_links" in line]


def test_an_all_reduce_that_fails_says_why_and_leaves_nothing() -> None:
    notes: list[str] = []
    assert all_reduce(2, notes, library="no-such-library", patience_s=120) is None
    assert len(notes) == 1
    assert notes[0].startswith("all-reduce over 2 devices: ")
    assert "no-such-library" in notes[0].lower()
    assert not alive()


def test_an_all_reduce_never_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is up before the processes have even started."""
    notes: list[str] = []
    assert all_reduce(2, notes, library="gloo", patience_s=0.1) is None
    assert "not done after 0 s" in notes[0]
    assert not alive()
    monkeypatch.setattr(measure_links.time, "sleep", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        all_reduce(2, [], library="gloo")
    assert not alive()


# ---- A GPU ----


@pytest.mark.gpu
def test_a_gpu_is_measured_within_a_minute_and_reaches_plausible_figures() -> None:
    device = find_device(None)
    in_use(device)  # whatever the answer, asking works
    began = time.monotonic()
    found = measure(device, nothing)
    assert time.monotonic() - began < 60
    details = found.details
    assert details is not None
    assert found.sm_count == torch.cuda.get_device_properties(device).multi_processor_count
    assert found.flops["fp16"] > found.flops["fp32"] * 0.9
    assert details.launch.graph_node_ns is not None
    assert details.launch.eager_ns is not None
    assert details.launch.graph_node_ns.mid < details.launch.eager_ns.mid
    assert details.links.h2d_pinned is not None
    assert details.links.h2d_pinned.mid < found.dram_bytes_per_s
    if found.l2_bytes_per_s is not None:
        assert found.l2_bytes_per_s > found.dram_bytes_per_s
