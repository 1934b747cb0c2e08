"""Grow a small PyTorch profile into a large one by repeating its events, and check the result.

    python benchmarks/grow_profile.py INPUT.json.gz OUTPUT.json.gz [--events 5300000] [--no-steps] [--rank 0]
    python benchmarks/grow_profile.py INPUT.json.gz OUTPUT.json.gz --check-only

INPUT is a profile of PyTorch 2.4 or newer as Kineto writes it: times in microseconds with three decimals,
relative to `baseTimeNanoseconds`. Every event of a copy is moved by a whole number of microseconds that is
longer than one copy, and every kind of id by a stride larger than its range in one copy, so that copies
neither overlap nor share an id. Numbers are edited as text: no time passes through a float.

The check reads the whole output back with Python's own `json` and exact decimals. Of how the output was made
it knows the length of a copy, no more, and it shares no code with gpuwhy's reader.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import operator
import re
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

OPEN = b'"traceEvents": [\n  {\n'
BETWEEN = b"\n  },\n  {\n"
CLOSE = b"\n  }\n  ],"

LAUNCH_CATS = frozenset({"cuda_runtime", "cuda_driver"})
DEVICE_CATS = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})

# Ids in `args`, by the number space they belong to. Correlation values, flows from host to device and
# External ids are moved by one common stride: some versions write one in place of the other.
ARG_SPACES = {
    "correlation": "link",
    "External id": "link",
    "wait_on_cuda_event_record_corr_id": "link",
    "wait_on_cuda_event_id": "cuda event",
    "Ev Idx": "Ev Idx",
    "Record function id": "Record function id",
    "Sequence number": "Sequence number",
    "Seq": "Seq",
    "Python id": "Python id",
    "Python parent id": "Python id",
}
ZERO_IS_AN_ID = frozenset({"Ev Idx", "Sequence number", "Seq", "Python id", "ProfilerStep"})
FLOWS = ("s", "t", "f")
LARGEST_ID = 2**31 - 1  # from here up the number stands for "none"

ARG_ID = re.compile(rb'"(' + "|".join(map(re.escape, ARG_SPACES)).encode() + rb')": (\d+)(?=[,}\s]|$)')
FLOW_ID = re.compile(rb'"id": (\d+)(?=[,}\s]|$)')
STEP = re.compile(rb'"name": "ProfilerStep#(\d+)"')
START = re.compile(rb'"ts": (\d+)(?=\.\d{3}(?:[,}\s]|$))')
LENGTH = re.compile(rb'"dur": (\d+)(?=\.\d{3}(?:[,}\s]|$))')


class Unfit(Exception):
    """The input is not a profile that this script can grow."""


def nanoseconds(text: str) -> int:
    """'12.345' microseconds as 12345, exactly."""
    whole, _, part = text.partition(".")
    if len(part) > 3:
        raise Unfit(f"time {text} has more than three decimals")
    return int(whole + part.ljust(3, "0"))


def is_id(space: str, value: object) -> bool:
    if not isinstance(value, int):
        return False
    return (0 if space in ZERO_IS_AN_ID else 1) <= value < LARGEST_ID


def ids_of(event: dict[str, Any]) -> Iterator[tuple[str, str, int]]:
    """(key, number space, id) of every id that one parsed event carries."""
    for key, value in event.get("args", {}).items():
        space = ARG_SPACES.get(key)
        if space is not None and is_id(space, value):
            yield key, space, value
    if event["ph"] in FLOWS and "id" in event:
        space = "link" if event["cat"] == "ac2g" else f"flow {event['cat']}"
        if is_id(space, event["id"]):
            yield f"flow {event['cat']}", space, event["id"]
    name = event.get("name", "")
    if name.startswith("ProfilerStep#") and name[13:].isdigit():
        yield "ProfilerStep", "ProfilerStep", int(name[13:])


def happens_once(event: dict[str, Any]) -> bool:
    name = event.get("name", "")
    return (
        event["ph"] == "M"
        or event.get("cat") == "Trace"
        or name == "Record Window End"
        or name.startswith("Iteration Start: ")
    )


@dataclass
class Source:
    """A small profile, cut into the texts of its events."""

    head: bytes
    tail: bytes
    texts: list[bytes] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    once: list[bytes] = field(default_factory=list)
    period_us: int = 0
    strides: dict[str, int] = field(default_factory=dict)
    highest: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, steps: bool = True) -> Source:
        with gzip.open(path) as file:
            data = file.read()
        if b'"baseTimeNanoseconds"' not in data or OPEN not in data or CLOSE not in data:
            raise Unfit(f"{path}: not a profile of PyTorch 2.4 or newer as Kineto writes it")
        start, end = data.index(OPEN) + len(OPEN), data.rindex(CLOSE)
        source = cls(data[:start], data[end:])
        texts = data[start:end].split(BETWEEN)
        parsed = json.loads(data, parse_float=str)["traceEvents"]
        if len(texts) != len(parsed):
            raise Unfit(f"{path}: {len(parsed)} events in {len(texts)} pieces of text: unknown layout")
        starts, ends = [], []
        bounds: dict[tuple[str, str], tuple[int, int]] = {}
        for text, event in zip(texts, parsed, strict=True):
            if happens_once(event):
                source.once.append(text)
                continue
            if not steps and event["name"].startswith("ProfilerStep#"):
                continue
            source.texts.append(text)
            source.events.append(event)
            starts.append(nanoseconds(str(event["ts"])))
            ends.append(starts[-1] + nanoseconds(str(event.get("dur", "0"))))
            for key, space, value in ids_of(event):
                low, high = bounds.get((space, key), (value, value))
                bounds[space, key] = (min(low, value), max(high, value))
        if not starts:
            raise Unfit(f"{path}: no events to repeat")
        source.period_us = ((max(ends) - min(starts)) // 1_000_000 + 1) * 1000
        for (space, _), (low, high) in bounds.items():
            source.strides[space] = max(high - low + 1, source.strides.get(space, 0))
            source.highest[space] = max(high, source.highest.get(space, 0))
        return source

    def template(self) -> tuple[bytes, list[int], list[int]]:
        """The text of one copy with ``%d`` for each number that moves, these numbers, and their strides."""
        pieces: list[bytes] = []
        values: list[int] = []
        strides: list[int] = []
        for text, event in zip(self.texts, self.events, strict=True):
            found = START.search(text)
            if found is None:
                raise Unfit(f"no time with three decimals in event {text!r}")
            spots = [(found.span(1), self.period_us)]
            ids = []
            for key in ARG_ID.finditer(text):
                ids.append((key.span(2), ARG_SPACES[key[1].decode()]))
            if event["ph"] in FLOWS and (number := FLOW_ID.search(text)):
                ids.append((number.span(1), "link" if event["cat"] == "ac2g" else f"flow {event['cat']}"))
            if step := STEP.search(text):
                ids.append((step.span(1), "ProfilerStep"))
            ids = [(span, space) for span, space in ids if is_id(space, int(text[slice(*span)]))]
            if sorted((space, int(text[slice(*span)])) for span, space in ids) != sorted(
                (space, value) for _, space, value in ids_of(event)
            ):
                raise Unfit(f"ids in the text and in the parsed event differ: {text!r}")
            spots += [(span, self.strides[space]) for span, space in ids]
            at = 0
            pieces.append(b"  {\n" if pieces else b"")
            for (start, end), stride in sorted(spots):
                pieces.append(text[at:start].replace(b"%", b"%%") + b"%d")
                values.append(int(text[start:end]))
                strides.append(stride)
                at = end
            pieces.append(text[at:].replace(b"%", b"%%") + b"\n  },\n")
        return b"".join(pieces)[: -len(b"\n  },\n")], values, strides


def shift(pattern: re.Pattern[bytes], text: bytes, by: int) -> bytes:
    found = pattern.search(text)
    if found is None:
        return text
    return text[: found.start(1)] + str(int(found[1]) + by).encode() + text[found.end(1) :]


def grow(source: Source, output: Path, copies: int, rank: int | None = None) -> int:
    """Write the grown profile; give the bytes of its uncompressed text."""
    for space, stride in source.strides.items():
        if source.highest[space] + stride * (copies - 1) >= LARGEST_ID:
            raise Unfit(f"{copies} copies need ids of kind {space} above {LARGEST_ID}")
    template, values, strides = source.template()
    later = source.period_us * (copies - 1)
    once = []
    for text in source.once:
        if b'"cat": "Trace"' in text:
            once.append(shift(LENGTH, text, later))
        elif b'"Record Window End"' in text:
            once.append(shift(START, text, later))
        else:
            once.append(text)
    head = source.head
    if rank is not None and b'"distributedInfo"' not in head:
        head = add_rank(head, rank)
    size = 0
    packer = zlib.compressobj(6, wbits=31)
    with output.open("wb") as file:

        def put(text: bytes) -> None:
            nonlocal size
            size += len(text)
            file.write(packer.compress(text))

        put(head)
        for copy in range(copies):
            if copy:
                put(BETWEEN)
                values = list(map(operator.add, values, strides))
            put(template % tuple(values))
        for text in once:
            put(BETWEEN + text)
        put(source.tail)
        file.write(packer.flush())
    return size


def add_rank(head: bytes, rank: int) -> bytes:
    """Put the rank that some readers ask for into the part of a profile before its events."""
    before, key, after = head.partition(b'"traceEvents": [')
    info = f'"distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": {rank + 1}}},\n  '
    return before + info.encode() + key + after


def stream(path: Path, block: int = 1 << 22) -> Iterator[tuple[list[dict[str, Any]], int]]:
    """Lists of parsed events of a profile, with the bytes of text read so far."""
    with gzip.open(path) as file:
        rest = b""
        size = 0
        inside = False
        while data := file.read(block):
            size += len(data)
            rest += data
            if not inside:
                if OPEN not in rest:
                    continue
                rest = rest[rest.index(OPEN) + len(OPEN) :]
                inside = True
            cut = rest.rfind(BETWEEN)
            if cut >= 0:
                yield parse(rest[:cut]), size
                rest = rest[cut + len(BETWEEN) :]
        if not inside or CLOSE not in rest:
            raise Unfit(f"{path}: no list of events in the known layout")
        yield parse(rest[: rest.rindex(CLOSE)]), size


def parse(text: bytes) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(b"[{" + text + b"}]", parse_float=str)
    return events


@dataclass
class Facts:
    """What the check compares of one copy."""

    events: int = 0
    launches: Counter[int] = field(default_factory=Counter)
    operations: Counter[int] = field(default_factory=Counter)
    flows: dict[str, Counter[int]] = field(default_factory=dict)
    bounds: dict[str, tuple[int, int]] = field(default_factory=dict)
    spans: dict[Any, list[tuple[int, int]]] = field(default_factory=dict)
    host: set[int] = field(default_factory=set)
    device: set[int] = field(default_factory=set)

    def add(self, event: dict[str, Any], start: int) -> None:
        self.events += 1
        cat = event.get("cat")
        args = event.get("args", {})
        if cat in LAUNCH_CATS:
            self.launches[args.get("correlation", 0)] += 1
        elif cat in DEVICE_CATS:
            self.operations[args.get("correlation", 0)] += 1
            self.spans.setdefault(event["pid"], []).append((start, start + nanoseconds(str(event["dur"]))))
        external = args.get("External id", 0)
        if external:
            (self.host if cat == "cpu_op" else self.device).add(external)
        if event["ph"] in FLOWS:
            self.flows.setdefault(f"{cat} {event['ph']}", Counter())[event["id"]] += 1
        for space, value in named_ids(event):
            low, high = self.bounds.get(space, (value, value))
            self.bounds[space] = (min(low, value), max(high, value))

    def linked(self) -> list[tuple[int, int]]:
        """Launches and device operations of each correlation value that has a launch, in its order."""
        return [(self.launches[key], self.operations[key]) for key in sorted(self.launches)]

    def busy(self) -> dict[Any, int]:
        """Nanoseconds in which each device did anything."""
        result = {}
        for device, spans in self.spans.items():
            total, reach = 0, -1
            for start, end in sorted(spans):
                total += max(0, end - max(start, reach))
                reach = max(reach, end)
            result[device] = total
        return result

    def summary(self) -> dict[str, Any]:
        """Everything that must be equal in all copies; ids only by their order."""
        return {
            "events": self.events,
            "device operations of each launch": self.linked(),
            "device operations": self.operations.total(),
            "device operations with a launch": sum(self.operations[key] for key in self.launches),
            "flows from a launch": sum(key in self.launches for key in self.flows.get("ac2g s", ())),
            "flows to a device operation": sum(key in self.operations for key in self.flows.get("ac2g f", ())),
            "External ids": (len(self.host), len(self.device), len(self.host & self.device)),
            "busy nanoseconds": self.busy(),
            "durations": sum(end - start for spans in self.spans.values() for start, end in spans),
            **{f"flows {key}": [count[one] for one in sorted(count)] for key, count in self.flows.items()},
            **{f"range of {key}": high - low for key, (low, high) in self.bounds.items()},
        }


def named_ids(event: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """As `ids_of`, but with kinds of flow and of annotation apart: an id must be new among its own."""
    args = event.get("args")
    if args:
        for key in args:
            if key in ARG_SPACES and is_id(ARG_SPACES[key], args[key]):
                yield key, args[key]
    if event["ph"] in FLOWS:
        yield f"flow {event['cat']} {event['ph']}", event["id"]
    elif event["name"].startswith("ProfilerStep#"):
        yield f"ProfilerStep of {event['cat']}", int(event["name"][13:])


def check(source: Source, path: Path, out: TextIO | None = None) -> bool:
    """Compare every copy in the grown profile with its source; print facts; tell whether all is well."""
    began = time.perf_counter()
    first = min(nanoseconds(str(event["ts"])) for event in source.events)
    period = source.period_us * 1000
    model = Facts()
    for event in source.events:
        model.add(event, nanoseconds(str(event["ts"])))
    expected = model.summary()
    problems: list[str] = []
    highest: dict[str, int] = {}
    totals: Counter[str] = Counter()

    def close(copy: int, facts: Facts) -> None:
        found = facts.summary()
        for key in expected | found:
            ours, theirs = found.get(key), expected.get(key)
            if ours != theirs:
                problems.append(f"copy {copy}: {key}: {ours!s:.80} where the source has {theirs!s:.80}")
        for key, (low, high) in facts.bounds.items():
            if low <= highest.get(key, -1):
                problems.append(f"copy {copy}: {key}: {low} is not above all earlier ids ({highest[key]})")
            highest[key] = max(high, highest.get(key, high))
        totals["launches"] += sum(facts.launches.values())
        totals["device operations"] += found["device operations"]
        totals["device operations with a launch"] += found["device operations with a launch"]
        totals["External ids"] += len(facts.host | facts.device)
        totals["busy nanoseconds"] += sum(found["busy nanoseconds"].values())

    copy, facts, size, once = 0, Facts(), 0, 0
    for events, size in stream(path):  # noqa: B007
        for event in events:
            if happens_once(event):
                once += 1
                continue
            start = nanoseconds(str(event["ts"]))
            at = (start - first) // period
            if at != copy:
                if at != copy + 1:  # so no event is in the time of another copy
                    problems.append(f"an event of copy {at} stands among those of copy {copy}")
                close(copy, facts)
                copy, facts = at, Facts()
            facts.add(event, start)
        if len(problems) > 20:
            print(f"stopped at copy {copy}", file=out)
            break
    else:
        close(copy, facts)
        if once != len(source.once):
            problems.append(f"{once} events that happen once, where the source has {len(source.once)}")
        for key in ("device operations", "device operations with a launch"):
            if totals[key] != (copy + 1) * expected[key]:
                problems.append(f"{key}: {totals[key]}, not {copy + 1} times {expected[key]}")
    copies = copy + 1
    print(f"events                           {once + copies * model.events:>15,}", file=out)
    print(f"bytes of JSON                    {size:>15,}", file=out)
    print(f"bytes of the file                {path.stat().st_size:>15,}", file=out)
    print(f"copies                           {copies:>15,}", file=out)
    steps = source.strides.get("ProfilerStep", 0)
    if steps:
        per_step = model.events // steps
        print(f"steps                            {copies * steps:>15,} of {per_step:,} events", file=out)
    for key, total in totals.items():
        print(f"{key:32} {total:>15,}", file=out)
    for problem in problems[:20]:
        print(f"WRONG: {problem}", file=out)
    verdict = "every copy equals the source, no id is in two copies"
    if problems:
        verdict = f"{len(problems)} problems, of which at most 20 are shown"
    print(f"check: {verdict} ({time.perf_counter() - began:.1f} s)", file=out)
    return not problems


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Grow a small PyTorch profile into a large one.")
    parser.add_argument("input", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--events", type=int, default=5_300_000, help="about how many (default: %(default)s)")
    parser.add_argument("--copies", type=int, help="how many copies, instead of --events")
    parser.add_argument("--no-steps", action="store_true", help="leave out the marks of ProfilerStep")
    parser.add_argument("--rank", type=int, help="add distributedInfo with this rank, if the input has none")
    parser.add_argument("--check-only", action="store_true", help="check an OUTPUT made earlier from INPUT")
    options = parser.parse_args(argv)
    gc.disable()  # millions of small objects and no cycles among them
    try:
        source = Source.read(options.input, not options.no_steps)
        if not options.check_only:
            began = time.perf_counter()
            copies = options.copies or max(1, round(options.events / len(source.texts)))
            size = grow(source, options.output, copies, options.rank)
            print(f"wrote {copies} copies of {len(source.texts)} events: {size:,} bytes of JSON", end="")
            print(f" ({time.perf_counter() - began:.1f} s)", flush=True)
        return 0 if check(source, options.output) else 1
    except Unfit as error:
        print(f"grow_profile: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
