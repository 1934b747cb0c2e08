"""The user's own profile with tracks added, for ui.perfetto.dev: accounts, gaps by cause, steps, and findings as flags.

The profile's bytes pass through untouched; the added events go to the head of its list, in processes of their own
(one a device) whose numbers nothing in the file has. Slices of a track nest, as Perfetto asks for. Times are decimal
microseconds on the file's own clock, exact to the nanosecond where Perfetto's numbers are (`EXACT`).
"""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np

from gpuwhy.errors import GpuwhyError
from gpuwhy.explained import Explained
from gpuwhy.ledger.accounts import within
from gpuwhy.ledger.charges import Spans
from gpuwhy.ledger.partition import Basis, Ledger, Owned, owners
from gpuwhy.reports import model
from gpuwhy.reports.build import Parts
from gpuwhy.reports.findings_model import FindingInfo
from gpuwhy.reports.words import CAUSE, kernel_name, meaning
from gpuwhy.sources import kineto
from gpuwhy.sources.open import STDIN, Opened
from gpuwhy.timeline import Timeline

FIRST_PROCESS = 900_000_000
"""Numbers of the added processes, from here on."""
BUSY, GAPS, STEPS, FINDINGS = range(1, 5)
TRACKS = {FINDINGS: "findings", STEPS: "steps judged", BUSY: "busy, by account", GAPS: "gaps, by cause"}
"""The added tracks in their order."""
MOST_FLAGS = 20
"""Stretches that one finding is flagged at, the longest."""
EXACT = 2**53
"""Times before this are read exactly by Perfetto, in ns: it reads decimal microseconds as floats, and whole ones as
integers. Later ones (of files that count from 1970) are written as whole ones: what touches does not overlap then."""
LONGEST_HEAD = 64 << 20
"""Bytes in which the list of events must begin."""
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|["{}\[\]]', re.DOTALL)
Event = dict[str, Any]
"""`ts` and `dur` in ns."""
TIMES = ("ts", "dur")


def write(explained: Explained, out: str) -> None:
    """Write the profile that was explained, with the added tracks, to `out` (compressed if it ends in `.gz`).

    Raises GpuwhyError where there is no one whole profile, or `out` cannot be written.
    """
    parts = explained.parts
    if parts is None:
        raise GpuwhyError("there is no profile to add tracks to")
    added = b",\n".join(_encoded(event) for event in tracks(parts, explained.report))
    if explained.redacted:  # the profile itself would tell all names
        with _writable(out) as file:
            file.write(b'{"traceEvents": [\n' + added + b"\n]}\n")
        return
    path = _path(parts.basis.timeline)
    with _readable(path) as chunks, _writable(out) as file:
        head, at = _events_begin(path, chunks)
        alone = head[at:].lstrip()[:1] == b"]"
        file.write(head[:at] + b"\n" + added + (b"\n" if alone else b",\n"))
        file.write(head[at:])
        for chunk in chunks:
            file.write(chunk)


def _path(timeline: Timeline) -> str:
    """The file of the profile."""
    source = timeline.sources[0]
    if len(timeline.sources) > 1:
        raise GpuwhyError("tracks are added to one profile at a time", hint="explain each rank's file by itself")
    if source.damage:
        raise GpuwhyError(f"{source.file}: Perfetto would not read it, because it is damaged: {source.damage}")
    if source.file == STDIN:
        raise GpuwhyError("standard input cannot be read a second time", hint="save the profile to a file first")
    return source.file


def tracks(parts: Parts, report: model.Report) -> Iterator[Event]:
    """The added events of all devices."""
    timeline = parts.basis.timeline
    taken = _processes(timeline)
    number = FIRST_PROCESS
    for order, (ledger, told) in enumerate(zip(parts.ledgers, report.devices, strict=True)):
        while str(number) in taken:
            number += 1
        yield from _names(timeline, told, number, order)
        owned = owners(parts.basis, ledger.device, ledger.window.start, ledger.window.end)
        clock = _Clock(timeline, told.rank)
        yield from _busy(parts.basis, owned, clock, number)
        yield from _gaps(parts.basis, owned, clock, number)
        yield from _steps(ledger, told, clock, number)
        findings = [one for one in report.findings if (one.rank, one.device) == (told.rank, told.device)]
        yield from _findings(parts.basis, owned, ledger, findings, clock, number)
        number += 1


class _Clock:
    """Times of the timeline → nanoseconds on the file's own clock, in steps of `grid`."""

    def __init__(self, timeline: Timeline, rank: int) -> None:
        metadata = next((one.metadata for one in timeline.sources if one.rank == rank), {})
        self.zero = timeline.origin_ns - kineto.base_ns(metadata)
        latest = self.zero + max((one.end_ns for one in timeline.sources), default=0)
        self.grid = 1 if max(abs(self.zero), abs(latest)) < EXACT else 1000

    def at(self, ns: int) -> int:
        """One time."""
        return (self.zero + ns) // self.grid * self.grid


def _encoded(event: Event) -> bytes:
    """One event as JSON. Its times come as ns and are written as microseconds, without a float in between."""
    times = "".join(f'"{key}": {_decimal(event[key])}, ' for key in TIMES if key in event)
    rest = json.dumps({key: value for key, value in event.items() if key not in TIMES})
    return f"{{{times}{rest[1:]}".encode()


def _decimal(ns: int) -> str:
    sign, ns = ("-" if ns < 0 else ""), abs(ns)
    return f"{sign}{ns // 1000}" + (f".{ns % 1000:03d}" if ns % 1000 else "")


def _processes(timeline: Timeline) -> set[str]:
    """Processes that the file names, and the numbers of its devices, which are processes there too."""
    return {thread.process for thread in timeline.threads} | {str(device.number) for device in timeline.devices}


def _names(timeline: Timeline, told: model.DeviceReport, pid: int, order: int) -> Iterator[Event]:
    rank = f"rank {told.rank}, " if len(timeline.sources) > 1 else ""
    yield {
        "ph": "M",
        "pid": pid,
        "tid": 0,
        "name": "process_name",
        "args": {"name": f"gpuwhy: {rank}GPU {told.device}"},
    }
    yield {"ph": "M", "pid": pid, "tid": 0, "name": "process_sort_index", "args": {"sort_index": order - 1000}}
    for place, (tid, name) in enumerate(TRACKS.items()):
        yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}
        yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": place}}


def _slice(pid: int, tid: int, name: str, clock: _Clock, start: int, end: int, args: Event) -> Event:
    return {
        "ph": "X",
        "cat": "gpuwhy",
        "pid": pid,
        "tid": tid,
        "name": name,
        "ts": clock.at(start),
        "dur": clock.at(end) - clock.at(start),
        "args": args,
    }


def _busy(of: Basis, owned: Owned, clock: _Clock, pid: int) -> Iterator[Event]:
    """Busy time; what follows without a gap in the same account is one slice."""
    for account, start, end, count in _joined(owned.busy):
        yield _slice(pid, BUSY, of.accounts.names[account], clock, start, end, {"operations": count})


def _joined(spans: Spans) -> list[tuple[int, int, int, int]]:
    """Spans (ascending) as (account, start, end, how many), those joined that touch and have one account."""
    if not len(spans.start):
        return []
    new = np.append(True, (spans.account[1:] != spans.account[:-1]) | (spans.start[1:] != spans.end[:-1]))
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(new)) - 1
    columns = (spans.account[first], spans.start[first], spans.end[last], last - first + 1)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _gaps(of: Basis, owned: Owned, clock: _Clock, pid: int) -> Iterator[Event]:
    """Each gap, named by the account with most of it, and within it what each part went to."""
    names, gaps = of.accounts.names, owned.gaps
    parts = _joined(owned.idle)
    begin = [start for _, start, _, _ in parts]
    rows = zip(gaps.time.start.tolist(), gaps.time.end.tolist(), gaps.ended_by.tolist(), strict=True)
    for start, end, ended_by in rows:
        own = parts[bisect_left(begin, start) : bisect_left(begin, end)]
        total: dict[int, int] = {}
        for account, since, until, _ in own:
            total[account] = total.get(account, 0) + until - since
        most = names[max(total, key=total.__getitem__)]
        args = {"what": meaning(most), "ended by": _operation(of.timeline, owned, ended_by)}
        if len(own) == 1:
            yield _slice(pid, GAPS, most, clock, start, end, args)
            continue
        yield _slice(pid, GAPS, f"gap, mostly {most}", clock, start, end, args)
        for account, since, until, count in own:
            yield _slice(pid, GAPS, names[account], clock, since, until, {"host calls": count})


def _operation(timeline: Timeline, owned: Owned, row: int) -> str:
    return kernel_name(timeline.names[owned.ops.name[row]]) if row >= 0 else "nothing"


def _steps(ledger: Ledger, told: model.DeviceReport, clock: _Clock, pid: int) -> Iterator[Event]:
    steps = ledger.window.steps
    if steps is None:
        return
    busy = {step.number: step.busy_ns for step in told.steps}
    for number, start, length in zip(steps.number.tolist(), steps.edge.tolist(), steps.length.tolist(), strict=False):
        worked = busy.get(number)
        share = round(100 * worked / length, 1) if worked is not None and length else None
        yield _slice(pid, STEPS, f"step {number}", clock, start, start + length, {"busy, % of the step": share})
        yield {
            "ph": "C",
            "pid": pid,
            "tid": 0,
            "name": "busy, % of the step",
            "ts": clock.at(start),
            "args": {"busy": share or 0.0},
        }


def _findings(
    of: Basis, owned: Owned, ledger: Ledger, findings: Iterable[FindingInfo], clock: _Clock, pid: int
) -> Iterator[Event]:
    """Each finding over the window, and flags where most of its time is lost."""
    for finding in findings:
        best = finding.mends[0].after_over_before if finding.mends else None
        args = {
            "why": " ".join(finding.evidence),
            "mends": ", ".join(mend.id for mend in finding.mends),
            "time a sample after the best": None if best is None else round(best.mid, 3),
            "refuted by": finding.refuted_by,
        }
        name = f"{finding.cause}: {finding.title}"
        yield _slice(pid, FINDINGS, name, clock, ledger.window.start, ledger.window.end, args)
        for start in _flags(of, owned, finding.cause):
            yield {
                "ph": "i",
                "s": "t",
                "cat": "gpuwhy",
                "pid": pid,
                "tid": FINDINGS,
                "name": finding.cause,
                "ts": clock.at(start),
            }


def _flags(of: Basis, owned: Owned, cause: str) -> list[int]:
    """Where the longest stretches of the accounts that prove a cause begin."""
    proves = [account for account, told in CAUSE.items() if told == cause]
    concerned = np.array([any(within(name, one) for one in proves) for name in of.accounts.names], bool)

    def of_spans(spans: Spans) -> list[tuple[int, int]]:
        rows = np.flatnonzero(concerned[spans.account]) if len(spans.account) else np.zeros(0, np.int64)
        length = spans.end[rows] - spans.start[rows]
        longest = rows[np.argsort(-length, kind="stable")[:MOST_FLAGS]]
        return [(int(spans.end[row] - spans.start[row]), int(spans.start[row])) for row in longest]

    found = sorted(of_spans(owned.busy) + of_spans(owned.idle), reverse=True)[:MOST_FLAGS]
    return sorted(start for _, start in found)


def _events_begin(path: str, chunks: Iterator[bytes]) -> tuple[bytes, int]:
    """The first bytes, and where among them the list of events begins (behind its bracket)."""
    head = b""
    for chunk in chunks:
        head += chunk
        at = _list_of_events(head)
        if at is not None:
            return head, at
        if len(head) > LONGEST_HEAD:
            break
    raise GpuwhyError(f"{path}: no list of events in it")


def _list_of_events(text: bytes) -> int | None:
    """Where the list of events begins: at the top, or as the value of `traceEvents` there; None: not yet."""
    depth, key = 0, b""
    for found in TOKEN.finditer(text):
        token = found[0]
        if token == b'"':
            return None  # a string that has not ended yet
        if token in (b"{", b"["):
            if token == b"[" and (depth == 0 or (depth == 1 and key == b'"traceEvents"')):
                return found.end()
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
        elif depth == 1:
            key = token if text[found.end() :].lstrip()[:1] == b":" else key
    return None


@contextmanager
def _readable(path: str) -> Iterator[Iterator[bytes]]:
    opened = Opened(path)
    try:
        if opened.kind != "json":
            raise GpuwhyError(
                f"{path}: tracks are added to the profile itself", hint="name the profile that it was saved from"
            )
        yield opened.chunks()
    finally:
        opened.close()


@contextmanager
def _writable(out: str) -> Iterator[BinaryIO]:
    """A file for the bytes of the result, complete or not there at all; what is no plain file is written to as such."""
    if out == "-":
        raise GpuwhyError("--perfetto -: a file is needed", hint="name one, such as more.json.gz")
    place = os.path.realpath(out)
    plain = os.path.isfile(place) or not os.path.exists(place)
    partial = f"{place}.{os.getpid()}.partial" if plain else place
    try:
        with _open(partial, compressed=out.endswith(".gz")) as file:
            yield file
        if plain:
            os.replace(partial, place)
    except OSError as error:
        raise GpuwhyError(f"{out}: cannot write: {error.strerror or error}") from None
    finally:
        if plain and os.path.exists(partial):
            os.unlink(partial)


def _open(path: str, compressed: bool) -> BinaryIO:
    if not compressed:
        return open(path, "wb")
    from isal import igzip

    opening: Any = igzip.open  # its stubs say nothing of types
    file: BinaryIO = opening(path, "wb", compresslevel=1)
    return file
