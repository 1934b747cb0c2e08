"""One program as each era of the profiler wrote it: tiny files made by hand, read to the same ledger.

Five steps of 100 µs. In step k, which begins at 100 k µs:

    host      [0 ProfilerStep#k                                                   100)
                    [10 aten::mm                  60) [62 copy 64)[64 memset 65)
                         [20 launch 30)
    device                        [40 kernel        90)   memset at 91, no length; [92 copy 95)

The first operations of the steps start at 40, 140, …, 440; the last step is left out: the window is [40, 440).
A step's 100 µs: kernel 50; [90, 92) before the copy, long after its call: device 2; copy 3; then until the next
kernel [95, 110) nothing but the step's mark 15, [110, 120) in aten::mm 10, in the launch call 10, after it 10.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import gpuwhy
from gpuwhy.timeline import CallKind, OpKind, Timeline

START = 1_712_784_354_003_894  # µs since 1970
HOST, DEVICE = 119376, 0
Event = dict[str, Any]
PER_STEP = {
    "busy/matmul": 50_000,
    "busy/copy/h2d_pageable": 3_000,
    "idle/device": 12_000,
    "idle/outside_operators/main": 15_000,
    "idle/dispatch": 10_000,
    "idle/launch": 10_000,
}


@dataclass
class Dialect:
    """How an era writes an event; the defaults are those of torch 1.13 to 2.3 (K2) on NVIDIA."""

    era: str = "K2"
    header: dict[str, Any] = field(default_factory=lambda: {"schemaVersion": 1, "deviceProperties": nvidia("A100")})
    cats: dict[str, str] = field(default_factory=dict)
    flow: tuple[str, str] = ("ac2g", "ac2g")
    external: str = "External id"
    thread: Any = HOST
    process: Any = HOST
    device: Any = DEVICE
    stream: int = 7
    stream_tid: Callable[[int], Any] = int
    time: Callable[[int], str] = lambda us: str(START + us)  # us after the start, as text of the file
    copy: str = "Memcpy HtoD (Pageable -> Device)"
    vendor: str = "cuda"
    kernel_args: dict[str, Any] = field(default_factory=dict)
    correlation: bool = True
    external_links: bool = True
    arrows: bool = True
    is_list: bool = False
    extra: list[Event] = field(default_factory=list)

    def span(self, cat: str, name: str, pid: Any, tid: Any, start: int, end: int, args: dict[str, Any]) -> Event:
        times = {"ts": f"@{self.time(start)}@", "dur": f"@{end - start}@"}
        return {"ph": "X", "cat": self.cats.get(cat, cat), "name": name, "pid": pid, "tid": tid, **times, "args": args}

    def host(self, cat: str, name: str, start: int, end: int, **args: Any) -> Event:
        return self.span(cat, name, self.process, self.thread, start, end, args)

    def pair(self, call: str, at: tuple[int, int], cat: str, op: str, ran: tuple[int, int], number: int) -> list[Event]:
        """A runtime call, its operation, and the arrow between them."""
        runtime: dict[str, Any] = {"cbid": 211}
        work: dict[str, Any] = {"device": self.device, "context": 1, "stream": self.stream}
        if self.correlation:
            runtime |= {"correlation": number, self.external: 1}
            work |= {"correlation": number, self.external: 1}
        elif self.external_links:
            runtime, work = {self.external: number}, {self.external: number}
        else:
            runtime, work = {}, {}
        tid = self.stream_tid(self.stream)
        found = [
            self.host("cuda_runtime", call, *at, **runtime),
            self.span(cat, op, self.device, tid, *ran, work | (self.kernel_args if cat == "kernel" else {})),
        ]
        if self.arrows:
            arrow = {"cat": self.flow[0], "name": self.flow[1], "id": number}
            found += [
                {"ph": "s", "pid": self.process, "tid": self.thread, "ts": f"@{self.time(at[0])}@", **arrow},
                {"ph": "f", "bp": "e", "pid": self.device, "tid": tid, "ts": f"@{self.time(ran[0])}@", **arrow},
            ]
        return found

    def step(self, k: int) -> list[Event]:
        t, api = 100 * k, self.vendor
        launch = f"{api}LaunchKernel"
        return [
            self.host("user_annotation", f"ProfilerStep#{k}", t, t + 100, **{self.external: 10 * k}),
            self.host("cpu_op", "aten::mm", t + 10, t + 60, **{self.external: 10 * k + 1}),
            *self.pair(launch, (t + 20, t + 30), "kernel", "sgemm", (t + 40, t + 90), 1000 + 3 * k),
            *self.pair(f"{api}MemcpyAsync", (t + 62, t + 64), "gpu_memcpy", self.copy, (t + 92, t + 95), 1001 + 3 * k),
            *self.pair(
                f"{api}MemsetAsync", (t + 64, t + 65), "gpu_memset", "Memset (Device)", (t + 91, t + 91), 1002 + 3 * k
            ),
        ]

    def events(self) -> list[Event]:
        spans = {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Traces", "tid": "PyTorch Profiler"}
        label = {"ph": "M", "name": "process_name", "pid": self.device, "tid": 0, "args": {"name": "python"}}
        own = [event for k in range(5) for event in self.step(k)]
        return [
            *own,
            {**spans, "ts": f"@{self.time(-50)}@", "dur": "@9000@", "args": {"Op count": 0}},
            label,
            *self.extra,
        ]

    def text(self) -> str:
        whole: Any = self.events() if self.is_list else {**self.header, "traceEvents": self.events()}
        return re.sub(r'"@([^@]*)@"', r"\1", json.dumps(whole))

    def load(self, folder: Path) -> Timeline:
        path = folder / "profile.json"
        path.write_text(self.text())
        return gpuwhy.load(str(path))


def nvidia(*names: str) -> list[dict[str, Any]]:
    return [{"id": i, "name": name, "numSms": 108, "warpSize": 32} for i, name in enumerate(names)]


def amd(*names: str) -> list[dict[str, Any]]:
    return [{"id": i, "name": name, "warpSize": 64} for i, name in enumerate(names)]


OLD_CATS = {
    "cpu_op": "Operator",
    "user_annotation": "Operator",
    "cuda_runtime": "Runtime",
    "kernel": "Kernel",
    "gpu_memcpy": "Memcpy",
    "gpu_memset": "Memset",
}
MEMORY = {
    "ph": "i",
    "name": "[memory]",
    "pid": HOST,
    "tid": "2248185664",
    "ts": START + 15,
    "s": "t",
    "args": {"Device Type": 1, "Device Id": 0, "Bytes": 512},
}
COUNTER = {"ph": "C", "name": "GPU 0 Utilization", "pid": 0, "ts": START + 15, "args": {"util": 0.5}}
BASE = {"displayTimeUnit": "ms", "baseTimeNanoseconds": (START - 7) * 1000}
CUPTI = {"cupti_version": 26, "cuda_runtime_version": 12060, "cuda_driver_version": 12060}
HIP = {"hip_runtime_version": 60342134, "hip_driver_version": 60342134, "roctracer_version": 410}
ON_AMD: dict[str, Any] = {"vendor": "hip", "device": 2, "stream": 0, "copy": "Memcpy HtoD (Host -> Device)"}


def after_base(us: int) -> str:
    return f"{us + 7}.000"


def query_flows(dialect: Dialect) -> list[Event]:
    """AMD finishes arrows of calls that launch nothing on the host's own thread."""
    arrow = {"cat": "ac2g", "name": "ac2g", "id": 5, "bp": "e"}
    return [
        dialect.host("cuda_runtime", "hipGetDevicePropertiesR0600", 5, 6, correlation=5),
        {"ph": "f", "pid": HOST, "tid": HOST, "ts": f"@{dialect.time(5)}@", **arrow},
    ]


def dialects() -> dict[str, Dialect]:
    old: dict[str, Any] = {
        "cats": OLD_CATS,
        "flow": ("async", "launch"),
        "external": "external id",
        "thread": "2248185664",
        "stream_tid": lambda stream: f"stream {stream}",
    }
    found = {
        "K0": Dialect("K0", is_list=True, process=str(HOST), device=0, **old),
        "K1": Dialect("K1", {"schemaVersion": 1, "computeProperties": nvidia("A100")}, extra=[MEMORY, COUNTER], **old),
        "K2a": Dialect("K2a", flow=("async_cpu_to_gpu", "async_gpu")),
        "K2": Dialect("K2"),
        "K2 on the legacy default stream": Dialect("K2", stream=0),
        "K2 on one of several devices": Dialect("K2", {"deviceProperties": nvidia("V100", "A100")}, device=1),
        "K3": Dialect(
            "K3",
            {"schemaVersion": 1, "deviceProperties": nvidia("A100"), "displayTimeUnit": "ns"},
            time=lambda us: f"{START + us}.0004999999999999999999",  # more digits than a double holds
        ),
        "K4": Dialect("K4", {"deviceProperties": nvidia("A100"), **BASE}, time=after_base),
        "K4b": Dialect("K4b", {"deviceProperties": nvidia("A100"), **CUPTI, **BASE}, time=after_base),
        "K5": Dialect(
            "K5",
            {"deviceProperties": nvidia("A100"), **CUPTI, **BASE},
            time=after_base,
            kernel_args={"graph id": 3, "graph node id": 17},
        ),
        "AMD K4": Dialect("K4", {"deviceProperties": amd("MI250"), **BASE}, time=after_base, **ON_AMD),
        "AMD K4b": Dialect("K4b", {"deviceProperties": amd(*8 * ["MI300X"]), **HIP, **BASE}, time=after_base, **ON_AMD),
        "AMD K2 by external id": Dialect("K2", {"schemaVersion": 1}, correlation=False, **ON_AMD),
        "AMD K2 by arrows": Dialect("K2", {"schemaVersion": 1}, correlation=False, external_links=False, **ON_AMD),
    }
    found["AMD K4b"].extra = query_flows(found["AMD K4b"])
    return found


NAMES = {
    "K0": None,
    "AMD K4": "MI250",
    "AMD K4b": "MI300X",  # device 2 is no index, but all have one name
    "AMD K2 by external id": None,
    "AMD K2 by arrows": None,
}


@pytest.mark.parametrize("label", dialects())
def test_era(label: str, tmp_path: Path) -> None:
    dialect = dialects()[label]
    timeline = dialect.load(tmp_path)
    source = timeline.sources[0]
    assert (source.era, source.damage, source.malformed, source.implausible) == (dialect.era, None, 0, 0)
    assert source.resolution_ns == (1000 if dialect.era in ("K0", "K1", "K2a", "K2") else 1)
    assert timeline.origin_ns == START * 1000

    wanted = [(100_000 * k + ns, kind) for k in range(5) for ns, kind in ((40_000, 0), (91_000, 2), (92_000, 1))]
    assert list(zip(timeline.ops.start.tolist(), timeline.ops.kind.tolist(), strict=True)) == wanted
    assert timeline.ops.kind.tolist()[:3] == [OpKind.KERNEL, OpKind.MEMSET, OpKind.COPY]
    assert set(timeline.ops.stream.tolist()) == {dialect.stream}

    called = [(100_000 * k + ns) for k in range(5) for ns in (20_000, 64_000, 62_000)]
    assert timeline.calls.start[timeline.ops.launch].tolist() == called
    assert (timeline.calls.kind[timeline.ops.launch] == CallKind.RUNTIME).all()

    (device,) = timeline.devices
    assert (device.number, device.name) == (dialect.device, NAMES.get(label, "A100"))
    assert {(t.process, t.thread) for t in timeline.threads} == {(str(HOST), str(dialect.thread))}

    report = gpuwhy.explain(timeline)
    assert (report.window.how, report.window.steps) == ("ProfilerStep", [0, 3])
    assert (report.window.start_ns, report.window.end_ns) == (40_000, 440_000)
    per_step = dict(PER_STEP)
    if dialect.vendor == "hip":
        per_step["busy/copy/h2d"] = per_step.pop("busy/copy/h2d_pageable")
    assert {line.account: line.ns for line in report.devices[0].ledger} == {a: 4 * ns for a, ns in per_step.items()}
    assert report.sound
    assert {c.check for c in report.trust if c.level in ("warn", "fail")} == {"host_known"}


def test_memory_marks_without_category(tmp_path: Path) -> None:
    memory = dialects()["K1"].load(tmp_path).memory
    assert (memory.bytes.tolist(), memory.time.tolist(), memory.thread.tolist()) == ([512], [15_000], [0])


def test_graph_nodes(tmp_path: Path) -> None:
    ops = dialects()["K5"].load(tmp_path).ops
    assert (ops.graph_node[ops.kind == OpKind.KERNEL] == 17).all()


@pytest.mark.parametrize(
    ("fraction", "ns"),
    [("", 0), (".0005", 0), (".00050000000000000001", 1), (".0015", 2), (".123", 123), (".9994999999999999999", 999)],
)
def test_absolute_times_keep_every_digit(tmp_path: Path, fraction: str, ns: int) -> None:
    """A double holds 0.25 µs of such a number; the text is read, half to even."""
    dialect = dialects()["K3"]
    dialect.time = lambda us: f"{START + us}{fraction if us == 40 else '.000'}"
    assert dialect.load(tmp_path).ops.start[0] == 40_000 + ns


# --- devices ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "number", "name"),
    [
        (nvidia("A100", "H100"), 1, "H100"),
        (nvidia("A100", "H100"), 5, None),
        (nvidia("A100", "A100"), 5, "A100"),
        (amd("MI300X", "Radeon"), 1, None),  # the agent's number, not an index
        (amd("MI300X", "MI300X"), 9, "MI300X"),
        (amd(""), 0, None),
        ([], 0, None),
        ("?", 0, None),
    ],
)
def test_device_names(tmp_path: Path, properties: Any, number: int, name: str | None) -> None:
    timeline = Dialect("K2", {"schemaVersion": 1, "deviceProperties": properties}, device=number).load(tmp_path)
    assert [(d.number, d.name) for d in timeline.devices] == [(number, name)]


def test_several_devices_in_one_file(tmp_path: Path) -> None:
    """Both run the program; a third one is only listed."""
    first = Dialect(header={"schemaVersion": 1, "deviceProperties": nvidia("A", "B", "C")})
    second = Dialect(device=2, process=HOST + 1, thread=HOST + 1)
    first.extra = [
        {**event, "args": {**event["args"], "correlation": event["args"]["correlation"] + 50}}
        if "correlation" in event.get("args", {})
        else event
        for event in second.events()
        if event["ph"] == "X"
    ]
    timeline = first.load(tmp_path)
    assert [(d.number, d.name) for d in timeline.devices] == [(0, "A"), (2, "C")]
    for device in gpuwhy.explain(timeline).devices:
        assert {line.account: line.ns for line in device.ledger} == {a: 4 * ns for a, ns in PER_STEP.items()}


def test_ranks_merged_into_one_file(tmp_path: Path) -> None:
    """Process labels are offset by rank, ids and device numbers are not: devices stay apart, causes are withheld."""
    first = Dialect()
    offset = 1_000_000
    first.extra = [
        {**event, "pid": event["pid"] + offset, "args": event.get("args", {}) | {"rank": 1, "pid_raw": event["pid"]}}
        for event in Dialect().events()
        if event["ph"] != "M" and event["pid"] != "Traces"
    ]
    timeline = first.load(tmp_path)
    assert [d.number for d in timeline.devices] == [0, offset]
    report = gpuwhy.explain(timeline, window="all")
    assert [d.operations for d in report.devices] == [15, 15]
    assert [d.busy_ns for d in report.devices] == [5 * 53_000] * 2
    failed = [c for c in report.trust if c.level == "fail"]
    assert [(c.check, c.withholds) for c in failed] == [("correlations_unique", ["idle causes"])]
