"""The ledger again, the slow way: every elementary interval is decided by the text of docs/ledger.md.

Between two neighbouring times at which anything starts or ends, nothing changes; such an interval is decided
on its own by walking through what is running and what is open. There is no other idea here. The module shares
nothing with the package and follows the sections of docs/ledger.md in their order, so that both can be read
side by side.

Where the text leaves something open, the reading is marked with READING.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from decimal import ROUND_HALF_EVEN, Decimal
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

Call = dict[str, Any]  # name, kind, thread = (process, thread), start, end, correlation
Operation = dict[str, Any]  # name, kind, start, end, launch (a Call, or None)
Thread = tuple[Any, Any]
Window = tuple[int, int]

CALL_KINDS = {
    "cpu_op": "operator",
    "user_annotation": "annotation",
    "python_function": "frame",
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
}
OPERATION_KINDS = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "memset"}
DAY = 24 * 3600 * 10**9


def read(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return json.loads(text, parse_float=Decimal)


# --- what is asked ------------------------------------------------------------------------------------------


def ledger(document: dict[str, Any], device: int = 0, window: Window | None = None) -> dict[str, int]:
    """Account -> nanoseconds, for one device; without a window from its first start to its last end."""
    accounts: dict[str, int] = defaultdict(int)
    for start, end, running, idle_account in _instants(document, device, window):
        accounts[charged(running) if running else idle_account] += end - start
    return dict(accounts)


def hidden(document: dict[str, Any], device: int = 0, window: Window | None = None) -> dict[str, int]:
    accounts: dict[str, int] = defaultdict(int)
    for start, end, running, _ in _instants(document, device, window):
        if running:
            for account in {busy_account(operation) for operation in running} - {charged(running)}:
                accounts[account] += end - start
    return dict(accounts)


def idle(document: dict[str, Any], device: int = 0, window: Window | None = None) -> dict[str, int]:
    """As `ledger`, with all busy time as one account, `busy`: for files with names that this module does not
    know.
    """
    accounts: dict[str, int] = defaultdict(int)
    for start, end, running, idle_account in _instants(document, device, window):
        accounts["busy" if running else idle_account] += end - start
    return dict(accounts)


# --- Times --------------------------------------------------------------------------------------------------


def nanoseconds(microseconds: Any) -> int:
    return int((Decimal(str(microseconds)) * 1000).quantize(Decimal(1), rounding=ROUND_HALF_EVEN))


def times(event: dict[str, Any]) -> tuple[int, int] | None:
    """Start and end, or None for an event that is left out."""
    if event.get("ph") != "X" or event.get("ts") is None or event.get("dur") is None:
        return None
    start, duration = nanoseconds(event["ts"]), nanoseconds(event["dur"])
    return (start, start + duration) if 0 <= duration <= DAY else None


def calls(document: dict[str, Any]) -> list[Call]:
    found = []
    for event in document["traceEvents"]:
        kind = CALL_KINDS.get(event.get("cat", ""))
        when = times(event) if kind else None
        if when:
            found.append(
                {
                    "name": event["name"],
                    "kind": kind,
                    "thread": (event["pid"], event["tid"]),
                    "start": when[0],
                    "end": when[1],
                    "correlation": event.get("args", {}).get("correlation") if kind == "runtime" else None,
                }
            )
    return found


def operations(document: dict[str, Any], all_calls: list[Call]) -> dict[Any, list[Operation]]:
    """Of each device, with their launches."""
    launches: dict[Any, Call] = {}
    for call in sorted(all_calls, key=outwards, reverse=True):
        if call["correlation"] is not None:
            launches.setdefault(call["correlation"], call)  # READING: of several, the first that started
    found: dict[Any, list[Operation]] = defaultdict(list)
    for event in document["traceEvents"]:
        kind = OPERATION_KINDS.get(event.get("cat", ""))
        when = times(event) if kind else None
        if when:
            launch = launches.get(event["args"].get("correlation"))
            found[event["args"].get("device", event["pid"])].append(
                {
                    "name": event["name"],
                    "kind": kind,
                    "start": when[0],
                    "end": when[1],
                    "launch": launch,
                    "stream": event["args"].get("stream", event["tid"]),
                }
            )
    return found


# --- Device time --------------------------------------------------------------------------------------------


def is_communication(operation: Operation) -> bool:
    return operation["kind"] == "kernel" and operation["name"].startswith("nccl")


def rank(operation: Operation) -> int:
    """Compute, communication, copy, memset."""
    if operation["kind"] == "kernel":
        return 1 if is_communication(operation) else 0
    return 2 if operation["kind"] == "copy" else 3


def order(operation: Operation) -> tuple[int, int, int, str]:
    return rank(operation), operation["start"], operation["end"], operation["name"]


def charged(running: list[Operation]) -> str:
    return busy_account(min(running, key=order))


COPIES = {
    "HtoD (Pageable -> Device)": "h2d_pageable",
    "HtoD (Pinned -> Device)": "h2d_pinned",
    "HtoD (Host -> Device)": "h2d",
    "HtoD": "h2d",
    "DtoH (Device -> Pageable)": "d2h",
    "DtoH (Device -> Pinned)": "d2h",
    "DtoH (Device -> Host)": "d2h",
    "DtoD (Device -> Device)": "d2d",
    "PtoP (Device -> Device)": "p2p",
}


def busy_account(operation: Operation) -> str:
    if operation["kind"] == "copy":
        return "busy/copy/" + COPIES[operation["name"].removeprefix("Memcpy ")]
    if operation["kind"] == "memset":
        return "busy/memset"
    launch = operation["launch"]
    return "busy/" + busy_class(operation, launch["enclosing"] if launch else [])


OPERATOR_CLASSES = {
    "aten::mm": "matmul",
    "aten::addmm": "matmul",
    "aten::bmm": "matmul",
    "aten::convolution": "convolution",
    "aten::_scaled_dot_product_flash_attention": "attention",
    "aten::_softmax": "softmax",
    "aten::native_layer_norm": "normalization",
    "aten::add": "elementwise",
    "aten::mul": "elementwise",
    "aten::sum": "reduction",
    "aten::index": "indexing",
}
"""A few that leave no doubt, and all that the tests use."""


def busy_class(operation: Operation, enclosing: list[Call]) -> str:
    """Of a kernel. `enclosing`: what was open when its launch started, from the inside out."""
    if is_communication(operation):
        return "communication"
    # READING: an optimizer annotation anywhere around the launch decides, also where an operator is further
    # inside.
    for call in enclosing:
        if call["kind"] == "annotation" and call["name"].startswith("Optimizer.step#"):
            return "optimizer"
    for call in enclosing:
        if call["kind"] == "operator" and call["name"] in OPERATOR_CLASSES:
            return OPERATOR_CLASSES[call["name"]]
    # READING: `triton_…` is what the kernel's own name says, so it comes after the calls.
    if operation["name"].startswith("triton_"):
        return "fused"
    if "gemm" in operation["name"]:
        return "matmul"
    return "other"


# --- Idle time ----------------------------------------------------------------------------------------------

INNERMOST = {"runtime": 0, "operator": 1, "annotation": 2, "frame": 2}


def outwards(call: Call) -> tuple[Any, ...]:
    """Sorts calls from the innermost outwards.

    READING: of an annotation and a frame, or two of a kind, with the same start and end, the name decides.
    """
    return -call["start"], call["end"], INNERMOST[call["kind"]], call["name"]


RUNTIME_ACCOUNTS = (
    (
        r"cuda(Malloc|Free|Host(Alloc|Register|Unregister))|cuMem(Alloc|Free|Create|Map|Unmap|Release)",
        "allocator",
    ),
    (r"cu(da)?(Device|Stream|Event|Ctx|Context|Thread)Synchronize", "sync"),
    (r"cu(da)?Memcpy", "copy_call"),
    (r"cuModuleLoad|cuLibraryLoad|cudaLibraryLoad", "module_load"),
    (r"cu(da)?Launch|cu(da)?GraphLaunch|cu(da)?Memset", "launch"),
    (r"cu(da)?Profiler", "profiler"),
)
OTHER_ACCOUNTS = (
    (r"torch/profiler/|torch/autograd/profiler\.py", "profiler"),
    (r"torch/_dynamo/convert_frame\.py|torch/_inductor/compile_fx\.py|triton/compiler/", "compile"),
    (r"enumerate\(DataLoader\)#.*\.__next__|torch/utils/data/(dataloader|_utils/fetch|dataset)\.py", "input"),
    (r"torch/serialization\.py", "serialization"),
    (r"<built-in function collect>", "gc"),
)


def special(call: Call) -> str | None:
    """What the first table of "What was open" says of a call, by the names that the tests use."""
    for pattern, account in RUNTIME_ACCOUNTS if call["kind"] == "runtime" else OTHER_ACCOUNTS:
        if re.match(pattern, call["name"]):
            return account
    return None


def is_step_mark(call: Call) -> bool:
    # READING: the ends of the optimizer's steps may stand in for marks, but the annotation is a plain one.
    return call["kind"] == "annotation" and re.fullmatch(r"ProfilerStep#\d+", call["name"]) is not None


def is_backward(call: Call) -> bool:
    return call["kind"] == "operator" and (
        call["name"].startswith("autograd::engine::evaluate_function")
        or re.search(r"Backward\d+$", call["name"]) is not None
    )


class Host:
    """What is known of the threads of a recording."""

    def __init__(self, all_calls: list[Call], all_operations: dict[Any, list[Operation]]) -> None:
        self.calls: dict[Thread, list[Call]] = defaultdict(list)
        for call in all_calls:
            self.calls[call["thread"]].append(call)

        self.families: dict[Thread, list[Thread]] = {}  # main, then backward, for each of them
        self.roles: dict[Thread, str] = dict.fromkeys(self.calls, "other")
        for process in {process for process, _ in self.calls}:
            threads = sorted((thread for thread in self.calls if thread[0] == process), key=self.first_call)
            main = self.main_thread(threads)
            family = [main]
            for thread in threads:
                if thread != main and any(is_backward(call) for call in self.calls[thread]):
                    family.append(thread)
            for thread in family:
                self.roles[thread] = "main" if thread == main else "backward"
                self.families[thread] = family

        for call in all_calls:
            call["launches"] = False
        launches = {
            id(operation["launch"]): operation["launch"]
            for some in all_operations.values()
            for operation in some
            if operation["launch"]
        }
        self.look_at_launches(list(launches.values()))

    def first_call(self, thread: Thread) -> tuple[int, str, str]:
        # READING: of two threads that began at the same instant, the lower number is first.
        number = f"{thread[1]:020d}" if isinstance(thread[1], int) else str(thread[1])
        return min(call["start"] for call in self.calls[thread]), number, str(thread[0])

    def main_thread(self, threads: list[Thread]) -> Thread:
        """Of one process; `threads` by the time of their first call, which decides between equals."""

        def marks(thread: Thread) -> int:
            return sum(is_step_mark(call) for call in self.calls[thread])

        def forward_time(thread: Thread) -> int:
            """In operators, outside backward ones: decided by the outermost operator at each instant."""
            operators = [call for call in self.calls[thread] if call["kind"] == "operator"]
            bounds = sorted({time for call in operators for time in (call["start"], call["end"])})
            total = 0
            for start, end in pairwise(bounds):
                opened = [call for call in operators if call["start"] <= start and end <= call["end"]]
                if opened and not is_backward(sorted(opened, key=outwards)[-1]):
                    total += end - start
            return total

        # READING: where several threads have step marks, the one with most of them. Where no thread has marks
        # or forward operators, all are equal: the one that began first.
        marked = any(marks(thread) for thread in threads)
        return max(threads, key=marks if marked else forward_time)

    def look_at_launches(self, launches: list[Call]) -> None:
        """`enclosing` of each launch: what was open when it started, from the inside out.

        READING: that is also what "lies inside" means: a launch lies in the operators that are open when it
        starts.
        """
        for thread, some in self.calls.items():
            to_come = sorted(some, key=lambda call: call["start"])
            opened: list[Call] = []
            for launch in sorted(
                (launch for launch in launches if launch["thread"] == thread), key=lambda call: call["start"]
            ):
                while to_come and to_come[0]["start"] <= launch["start"]:
                    opened.append(to_come.pop(0))
                opened = [call for call in opened if call["end"] > launch["start"]]
                launch["enclosing"] = sorted((call for call in opened if call is not launch), key=outwards)
                for call in opened:
                    call["launches"] = call["kind"] == "operator"

    def knows_only_runtime_calls(self, thread: Thread) -> bool:
        return all(call["kind"] == "runtime" for call in self.calls[thread])


def idle_account(t: int, ended_by: Operation | None, opened: dict[Thread, list[Call]], host: Host) -> str:
    """The account of an instant `t` of a gap that the operation `ended_by` ends."""
    if ended_by is None or ended_by["launch"] is None:
        return "idle/untraced"
    launch = ended_by["launch"]
    if t >= launch["end"]:
        return "idle/device"

    thread = launch["thread"]
    family = [thread] + [other for other in host.families.get(thread, []) if other != thread]
    for one in family:
        account = deciding_call(opened[one])
        if account:
            return account
    for one in family:
        account = plain_frame(opened[one])
        if account:
            return account
    if host.knows_only_runtime_calls(thread):
        return "idle/untraced"
    return "idle/outside_operators/" + host.roles[thread]


def deciding_call(opened: list[Call]) -> str | None:
    for call in sorted(opened, key=outwards):
        account = special(call)
        if account:
            return "idle/" + account
    operators = [call for call in sorted(opened, key=outwards) if call["kind"] == "operator"]
    if not operators:
        return None
    return "idle/dispatch" if operators[-1]["launches"] else "idle/host_compute"


def plain_frame(opened: list[Call]) -> str | None:
    for call in sorted(opened, key=outwards):
        if call["kind"] == "frame":
            return "idle/outside_operators/" + call["name"]
        if call["kind"] == "annotation" and not is_step_mark(call):
            return "idle/outside_operators/annotation: " + call["name"]
    return None


# --- The walk over all instants -----------------------------------------------------------------------------


def _instants(
    document: dict[str, Any], device: int, window: Window | None
) -> Iterator[tuple[int, int, list[Operation], str]]:
    """Each elementary interval of the window: start, end, what runs, and, where nothing runs, the idle
    account.
    """
    all_calls = calls(document)
    all_operations = operations(document, all_calls)
    ours = all_operations.get(device, [])
    if not ours:
        return
    host = Host(all_calls, all_operations)
    if window is None:
        window = min(operation["start"] for operation in ours), max(operation["end"] for operation in ours)

    starting: dict[int, list[dict[str, Any]]] = defaultdict(list)
    ending: dict[int, list[dict[str, Any]]] = defaultdict(list)
    boundaries = set(window)
    for item in all_calls + ours:
        boundaries |= {item["start"], item["end"]}
        if item["start"] < item["end"]:  # what has no length is never open, and never runs
            starting[item["start"]].append(item)
            ending[item["end"]].append(item)

    to_come = sorted(
        (operation for operation in ours if operation["start"] < operation["end"]),
        key=lambda operation: (operation["start"], order(operation)),
    )
    running: list[Operation] = []
    opened: dict[Thread, list[Call]] = defaultdict(list)
    for start, end in pairwise(sorted(boundaries)):
        for item in ending[start]:
            among = opened[item["thread"]] if "thread" in item else running
            among[:] = [other for other in among if other is not item]
        for item in starting[start]:
            (opened[item["thread"]] if "thread" in item else running).append(item)
        while to_come and to_come[0]["start"] <= start:
            to_come.pop(0)
        if window[0] <= start and end <= window[1]:
            # READING: a gap is one of the whole recording; a window that cuts it does not change what ends
            # it.
            ended_by = to_come[0] if to_come else None
            account = "" if running else idle_account(start, ended_by, opened, host)
            yield start, end, list(running), account


# --- Steps and window ---------------------------------------------------------------------------------------


def main_stream(ours: list[Operation]) -> Any:
    """The stream with most kernels; of equals the one where they ran longer, then the lower number."""
    streams = sorted({operation["stream"] for operation in ours})

    def kernels(stream: Any) -> tuple[int, int]:
        lengths = [one["end"] - one["start"] for one in ours if one["stream"] == stream and one["kind"] == "kernel"]
        return len(lengths), sum(lengths)

    return max(streams, key=kernels) if streams else None  # max: the first of equals


def steps(document: dict[str, Any], device: int = 0) -> list[tuple[int, int, int]]:
    """(number of the mark, start, end) of the device's steps that are judged, by `ProfilerStep#n` marks."""
    all_calls = calls(document)
    ours = operations(document, all_calls).get(device, [])
    marks = sorted((call for call in all_calls if is_step_mark(call)), key=lambda call: call["start"])
    main = main_stream(ours)
    found = []  # [number, first start, last end] of the host steps that launch something
    for position, mark in enumerate(marks):
        until = marks[position + 1]["start"] if position + 1 < len(marks) else mark["end"]
        own = [
            operation
            for operation in ours
            if operation["launch"]
            and operation["stream"] == main
            and mark["start"] <= operation["launch"]["start"] < until
        ]
        if own:
            first = min(operation["start"] for operation in own)
            found.append([int(mark["name"].split("#")[1]), first, max(operation["end"] for operation in own)])
    starts = [min(first for _, first, _ in found[position:]) for position in range(len(found))]
    ends = [*starts[1:], found[-1][2]] if found else []
    judged = [(step[0], start, end) for step, start, end in zip(found, starts, ends, strict=True)]
    # READING: "four or more were recorded" counts the steps that launched something on this device.
    judged = judged[:-1] if len(judged) >= 4 else judged
    return [step for step in judged if step[2] > step[1]]


def steady_steps(document: dict[str, Any], device: int = 0) -> list[tuple[int, int, int]]:
    steady = steps(document, device)
    # READING: the median is over all judged steps, start-up ones too; of an even number it is the middle.
    middle = median([end - start for _, start, end in steady] or [0])
    while steady and steady[0][2] - steady[0][1] > 2 * middle:
        steady = steady[1:]
    return steady


def steady_window(document: dict[str, Any], device: int = 0) -> Window | None:
    steady = steady_steps(document, device)
    return (steady[0][1], steady[-1][2]) if steady else None
