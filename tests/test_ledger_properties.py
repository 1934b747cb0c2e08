"""The package's ledger against the brute force, on small documents drawn at random and on real files."""

from __future__ import annotations

import json
import random
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import brute_force
import pytest
from events import Profile
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_worked_examples import explained

# --- Documents ----------------------------------------------------------------------------------------------
# Times come from a small range, so that equal times, zero lengths, and calls that overlap without nesting
# are common. What the text leaves open is not drawn: two calls of a thread with the same start and end differ
# in rank (runtime call, operator, annotation or frame), and two operations of a device with the same start
# and end differ in name.

PROCESS, OTHER_PROCESS = 100, 200
THREADS = [(PROCESS, 100), (PROCESS, 101), (PROCESS, 102), (OTHER_PROCESS, 300)]
LAST = 30

OPERATORS = [
    "aten::mm",
    "aten::add",
    "mylib::work",
    "autograd::engine::evaluate_function: WorkBackward0",
    "WorkBackward0",
]
ANNOTATIONS = [
    "epoch",
    "Optimizer.step#Adam.step",
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
]
FRAMES = [
    "train.py(1): main",
    "torch/profiler/profiler.py(894): step",
    "torch/utils/data/_utils/fetch.py(52): fetch",
    "torch/serialization.py(943): save",
]
RUNTIME = ["cudaMalloc", "cudaStreamSynchronize", "cudaEventQuery", "cudaMemcpyAsync", "cudaLaunchKernel"]
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
WORK = ["a_kernel", "b_kernel", NCCL, "HtoD (Pageable -> Device)", "DtoH (Device -> Pinned)", "memset"]
LAUNCHES = {"memset": "cudaMemsetAsync", "HtoD (Pageable -> Device)": "cudaMemcpyAsync"}

Event = dict[str, Any]

times = st.integers(0, LAST)
spans = st.tuples(times, times).map(lambda drawn: (min(drawn), max(drawn)))
short_spans = st.tuples(times, st.sampled_from([0, 1, 1, 2, 3])).map(lambda drawn: (drawn[0], sum(drawn)))
# Mostly short and launched shortly before, so that the device is idle for many reasons.
work_spans = st.one_of(short_spans, short_spans, short_spans, spans)
launch_delays = st.one_of(st.integers(0, 4), st.integers(0, 4), st.integers(-4, LAST))


@st.composite
def profiles(draw: st.DrawFn, marks: bool | None = None) -> list[Event]:
    """Events, with times in nanoseconds; `document` makes a document of them."""
    events: list[Event] = []
    taken: set[Any] = set()

    def call(category: str, name: str, span: tuple[int, int], thread: tuple[int, int]) -> Event | None:
        rank = brute_force.INNERMOST[brute_force.CALL_KINDS[category]]
        if (thread, span, rank) in taken:
            return None
        taken.add((thread, span, rank))
        event = {"cat": category, "name": name, "pid": thread[0], "tid": thread[1], "span": span, "args": {}}
        events.append(event)
        return event

    threads = st.sampled_from(THREADS[: draw(st.integers(1, len(THREADS)))] + THREADS[:1])
    for category, names, most in (
        ("cpu_op", OPERATORS, 10),
        ("user_annotation", ANNOTATIONS, 2),
        ("python_function", FRAMES, 3),
        ("cuda_runtime", RUNTIME, 3),
    ):
        some = st.tuples(st.sampled_from(names), spans, threads)
        number = draw(st.integers(0, most))  # lists of any size would mostly be short
        for name, span, thread in draw(st.lists(some, min_size=number, max_size=number)):
            call(category, name, span, thread)
    if draw(st.booleans()) if marks is None else marks:
        starts = sorted(draw(st.sets(times, min_size=3 if marks else 1, max_size=7)))
        for number, start in enumerate(starts, 7):
            # Some are followed by a pause, some overlap the next.
            call(
                "user_annotation",
                f"ProfilerStep#{number}",
                (start, start + draw(st.integers(0, 8))),
                THREADS[0],
            )

    correlation = 0
    for name, span, delay, call_length, thread, stream, device, how in draw(
        st.lists(
            st.tuples(
                st.sampled_from(WORK),
                work_spans,
                launch_delays,
                st.integers(0, 3),
                threads,
                st.sampled_from([7, 13, 20]),
                st.sampled_from([0, 0, 0, 1]),
                st.sampled_from(["launched"] * 6 + ["as the one before", "no launch"]),
            ),
            min_size=3,
            max_size=12,
        )
    ):
        if (device, span, name) in taken:
            continue
        taken.add((device, span, name))
        if how != "as the one before":  # several operations of one launch: a graph
            correlation += 1
        event = work(name, span, stream, device)
        event["args"]["correlation"] = correlation
        events.append(event)
        if how == "launched":
            called = max(0, span[0] - delay)
            calling = called, called + call_length
            launch = call("cuda_runtime", LAUNCHES.get(name, "cudaLaunchKernel"), calling, thread)
            if launch:
                launch["args"]["correlation"] = correlation
    assume(devices(events))
    return events


def work(name: str, span: tuple[int, int], stream: int, device: int) -> Event:
    if name == "memset":
        category, name = "gpu_memset", "Memset (Device)"
    elif name.startswith(("HtoD", "DtoH")):
        category, name = "gpu_memcpy", f"Memcpy {name}"
    else:
        category = "kernel"
    args = {"device": device, "context": 1, "stream": stream}
    return {"cat": category, "name": name, "pid": device, "tid": stream, "span": span, "args": args}


def profile(events: list[Event], scale: int = 1) -> Profile:
    made = Profile()
    for event in events:
        start, end = (scale * time for time in event["span"])
        times = f'"ts": {Decimal(start) / 1000:.3f}, "dur": {Decimal(end - start) / 1000:.3f}'
        made.raw(times, **{key: value for key, value in event.items() if key != "span"})
    return made


def devices(events: list[Event]) -> list[int]:
    """Those with a time to explain: a device with one operation of zero length has none."""
    return [device for device in (0, 1) if extent(events, device)]


def extent(events: list[Event], device: int) -> int:
    """From the first start to the last end of the device's operations."""
    spans = [event["span"] for event in events if event["args"].get("device") == device]
    return max(end for _, end in spans) - min(start for start, _ in spans) if spans else 0


def package(made: Profile, device: int = 0, window: str | None = "all") -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return explained(made.write(Path(folder) / "profile.json"), device, window)


def dense(seed: int) -> list[Event]:
    """A longer document of plain chance: what Hypothesis draws is small, and mostly busy or untraced."""
    chance = random.Random(seed)
    events: list[Event] = []
    taken: set[Any] = set()
    length = chance.choice([60, 200])

    def add(category: str, name: str, start: int, most: int, thread: tuple[int, int], **args: int) -> None:
        span = start, start + chance.randint(0, most)
        rank = brute_force.INNERMOST[brute_force.CALL_KINDS[category]]
        if (thread, span, rank) not in taken:
            taken.add((thread, span, rank))
            where = {"pid": thread[0], "tid": thread[1]}
            events.append({"cat": category, "name": name, **where, "span": span, "args": args})

    for thread in chance.sample(THREADS, chance.randint(1, len(THREADS))):
        backward = chance.random() < 0.5
        for _ in range(chance.randint(0, 25)):
            name = chance.choice(OPERATORS if backward else OPERATORS[:3])
            add("cpu_op", name, chance.randrange(length), chance.choice([3, length // 5]), thread)
        for category, names in (
            ("cuda_runtime", RUNTIME),
            ("user_annotation", ANNOTATIONS),
            ("python_function", FRAMES),
        ):
            for _ in range(chance.choice([0, 2, 8])):
                add(category, chance.choice(names), chance.randrange(length), length // 10, thread)
    if chance.random() < 0.8:
        for number in range(chance.randint(1, 7)):
            start = number * length // 7 + chance.randint(0, 9)
            add(
                "user_annotation",
                f"ProfilerStep#{number}",
                10 * number + chance.randint(0, 9),
                15,
                THREADS[0],
            )

    threads = sorted({(event["pid"], event["tid"]) for event in events}) or THREADS[:1]
    for correlation in range(chance.randint(2, length // 5)):
        name, thread, start = chance.choice(WORK), chance.choice(threads), chance.randrange(length)
        span, device = (start, start + chance.choice([0, 1, 2, 3, 10])), chance.choice([0, 0, 0, 1])
        if (device, span, name) not in taken:
            taken.add((device, span, name))
            events.append(work(name, span, chance.choice([7, 13]), device))
            events[-1]["args"]["correlation"] = correlation - (chance.random() < 0.1)  # some share a launch
            if chance.random() < 0.95:
                launch = LAUNCHES.get(name, "cudaLaunchKernel")
                called = max(0, start - chance.randint(-2, 12))
                add("cuda_runtime", launch, called, 4, thread, correlation=correlation)
    return events


# --- Properties ---------------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(profiles())
def test_ledger_equals_brute_force(events: list[Event]) -> None:
    made = profile(events)
    document = made.document()
    for device in devices(events):
        found = package(made, device)
        assert found["ledger"] == brute_force.ledger(document, device)
        assert found["hidden"] == brute_force.hidden(document, device)


@pytest.mark.parametrize("seed", range(200))
def test_ledger_of_dense_documents_equals_brute_force(seed: int) -> None:
    made = profile(dense(seed))
    document = made.document()
    for device in devices(dense(seed)):
        found = package(made, device)
        assert found["ledger"] == brute_force.ledger(document, device)
        assert found["hidden"] == brute_force.hidden(document, device)
        window = brute_force.steady_window(document, device)
        if window and window[0] < window[1]:
            steady = package(made, device, window=None)
            assert steady["ledger"] == brute_force.ledger(document, device, window)
            assert steady["hidden"] == brute_force.hidden(document, device, window)


@settings(max_examples=300)
@given(profiles(marks=True))
def test_steady_state_equals_brute_force(events: list[Event]) -> None:
    made = profile(events)
    document = made.document()
    device = devices(events)[0]
    window = brute_force.steady_window(document, device)
    if window is None or window[0] == window[1]:
        return  # no step launched anything on this device, or they have no length: nothing to judge
    found = package(made, device, window=None)
    steady = brute_force.steady_steps(document, device)
    assert found["ledger"] == brute_force.ledger(document, device, window)
    assert found["hidden"] == brute_force.hidden(document, device, window)
    assert found["window"][1] - found["window"][0] == window[1] - window[0]
    if len(devices(events)) == 1:  # the report's steps are those of all devices
        assert found["steps"] == (steady[0][0], steady[-1][0])
        assert found["step_count"] == len(steady)


@given(profiles())
def test_ledger_is_the_window(events: list[Event]) -> None:
    for device in devices(events):
        found = package(profile(events), device)
        balance = sum(found["ledger"].values())
        assert balance == found["window"][1] - found["window"][0] == extent(events, device)
        assert all(ns > 0 for ns in found["ledger"].values())
        assert all(ns > 0 for ns in found["hidden"].values())


@given(profiles(), st.randoms(use_true_random=False))
def test_order_of_events_does_not_matter(events: list[Event], chance: random.Random) -> None:
    shuffled = list(events)
    chance.shuffle(shuffled)
    device = devices(events)[0]
    assert package(profile(shuffled), device) == package(profile(events), device)


@given(profiles(), st.randoms(use_true_random=False))
def test_numbers_are_only_names(events: list[Event], chance: random.Random) -> None:
    """Processes, threads, streams and correlations under other numbers.

    Those of threads keep their order, which decides where two threads of a process begin at the same instant.
    """

    def renamed(numbers: list[int], keep_order: bool = False) -> dict[int, int]:
        new = chance.sample(range(1000, 5000), len(numbers))
        return dict(zip(numbers, sorted(new) if keep_order else new, strict=True))

    processes = renamed([PROCESS, OTHER_PROCESS])
    threads = renamed([thread for _, thread in THREADS], keep_order=True)
    streams = renamed([7, 13, 20])
    correlations = renamed(sorted({event["args"].get("correlation", 0) for event in events}))
    others = json.loads(json.dumps(events))
    for event in others:
        if "stream" in event["args"]:
            event["tid"] = event["args"]["stream"] = streams[event["tid"]]
        else:
            event["pid"], event["tid"] = processes[event["pid"]], threads[event["tid"]]
        if "correlation" in event["args"]:
            event["args"]["correlation"] = correlations[event["args"]["correlation"]]
    device = devices(events)[0]
    assert package(profile(others), device) == package(profile(events), device)


@given(profiles(), st.integers(2, 10**9))
def test_times_may_be_scaled(events: list[Event], factor: int) -> None:
    device = devices(events)[0]
    plain, scaled = package(profile(events), device), package(profile(events, factor), device)
    for part in ("ledger", "hidden"):
        assert scaled[part] == {account: factor * ns for account, ns in plain[part].items()}


@given(profiles())
def test_brute_force_is_the_window(events: list[Event]) -> None:
    """The oracle itself: it balances, whole and in parts."""
    document = profile(events).document()
    for device in devices(events):
        whole = brute_force.ledger(document, device)
        spans = [event["span"] for event in events if event["args"].get("device") == device]
        start, end = min(start for start, _ in spans), max(end for _, end in spans)
        assert sum(whole.values()) == end - start
        middle = (start + end) // 2
        parts: dict[str, int] = {}
        for window in ((start, middle), (middle, end)):
            for account, ns in brute_force.ledger(document, device, window).items():
                parts[account] = parts.get(account, 0) + ns
        assert parts == whole


# --- Real files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "launch_bound_decode.base",  # one thread
        "launch_bound_decode.fixed",  # a graph: one launch for many kernels
        "checkpoint_each_step.base",  # forward and backward in turns, copies, time outside operators
        "pageable_copy.fixed",  # two streams, operations whose launch was not recorded
    ],
)
def test_idle_time_of_real_files(shared_dir: Path, name: str) -> None:
    path = shared_dir / "zoo" / "traces" / f"{name}.json.gz"
    document = brute_force.read(path)
    window = brute_force.steady_window(document)
    assert window is not None
    wanted = brute_force.idle(document, 0, window)
    found = explained(path, window=None)
    assert found["window"][1] - found["window"][0] == window[1] - window[0]
    assert found["busy_ns"] == wanted.pop("busy")
    assert {a: ns for a, ns in found["ledger"].items() if a.startswith("idle/")} == wanted
