"""`--perfetto`: the profile as it was, with tracks that ui.perfetto.dev takes and that sum to the ledger."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from conftest import SHARED, needs_shared

import gpuwhy
from gpuwhy import api
from gpuwhy.errors import GpuwhyError
from gpuwhy.reports.perfetto import FIRST_PROCESS, _list_of_events, write

DEMO = Path(gpuwhy.__file__).parent / "data" / "demo.pt.trace.json.gz"
OURS = "gpuwhy"
LARGEST = 100_000
"""Bytes of the public profiles that are tried."""


def gpuwhy_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpuwhy", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def exported(path: Path, out: Path) -> tuple[Any, list[dict[str, Any]], list[dict[str, Any]], gpuwhy.Report]:
    """The whole file, the events that were added, the others, and the report."""
    found = api.explained(gpuwhy.load(str(path)))
    write(found, str(out))
    whole = read(out)
    events = whole if isinstance(whole, list) else whole["traceEvents"]
    added = [event for event in events if is_added(event)]
    return whole, added, [event for event in events if not is_added(event)], found.report


def read(path: Path) -> Any:
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def is_added(event: dict[str, Any]) -> bool:
    pid = event.get("pid")
    return isinstance(pid, int) and pid >= FIRST_PROCESS


def ns(us: float) -> int:
    """As Perfetto reads a time: whole microseconds exactly, others as a float to the nearest nanosecond."""
    return us * 1000 if isinstance(us, int) else round(us * 1000.0)


def check_nesting(events: list[dict[str, Any]]) -> None:
    """Slices of a track lie within each other or apart, as Perfetto's importer demands; it drops those that do not.

    One nanosecond is forgiven: that of a float's rounding.
    """
    tracks: dict[tuple[Any, Any], list[tuple[int, int]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append((ns(event["ts"]), ns(event["ts"]) + ns(event["dur"])))
    for slices in tracks.values():
        around: list[int] = []
        for start, end in sorted(slices, key=lambda one: (one[0], -one[1])):
            while around and around[-1] <= start + 1:
                around.pop()
            assert not around or end <= around[-1] + 1, (start, end, around[-1])
            around.append(end)


def totals(events: list[dict[str, Any]], track: str) -> dict[str, int]:
    """Ns by name of the innermost slices of one track."""
    tid = next(e["tid"] for e in events if e["name"] == "thread_name" and e["args"]["name"] == track)
    slices = sorted(
        (
            (round(e["ts"] * 1000), -round(e["dur"] * 1000), e["name"])
            for e in events
            if e["ph"] == "X" and e["tid"] == tid
        ),
    )
    found: dict[str, int] = defaultdict(int)
    open_: list[tuple[int, str]] = []
    for start, length, name in slices:
        while open_ and open_[-1][0] <= start:
            open_.pop()
        if open_:
            found[open_[-1][1]] += length if not open_[-1][1].startswith("gap, mostly ") else 0
        if not name.startswith("gap, mostly "):
            found[name] -= length
        open_.append((start - length, name))
    return {name: total for name, total in found.items() if total}


PROFILES = [
    DEMO,
    *(
        pytest.param(SHARED / name, marks=needs_shared)
        for name in (
            "zoo/traces/well_fed_gpt.base.json.gz",
            "zoo/traces/item_every_step.base.json.gz",
            "zoo/traces/launch_bound_decode.base.json.gz",
        )
    ),
]


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.name.split(".")[0])
def test_the_profile_is_there_as_it_was_and_the_added_tracks_sum_to_the_ledger(path: Path, tmp_path: Path) -> None:
    whole, added, others, report = exported(path, tmp_path / "out.json.gz")
    before = read(path)
    assert others == before["traceEvents"]
    assert {key: value for key, value in whole.items() if key != "traceEvents"} == {
        key: value for key, value in before.items() if key != "traceEvents"
    }
    check_nesting(added)
    (device,) = report.devices
    ledger = {entry.account: entry.ns for entry in device.ledger}
    told = {**totals(added, "busy, by account"), **totals(added, "gaps, by cause")}
    assert told.keys() == ledger.keys()
    for account, total in told.items():
        assert total == pytest.approx(ledger[account], abs=2000), account  # floats of the reader


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.name.split(".")[0])
def test_numbers_of_processes_and_tracks_are_ones_own(path: Path, tmp_path: Path) -> None:
    _, added, others, report = exported(path, tmp_path / "out.json")
    assert {event["pid"] for event in added}.isdisjoint({event.get("pid") for event in others})
    assert {event["cat"] for event in added if event["ph"] in "Xi"} == {OURS}
    named = {(event["pid"], event["tid"]) for event in added if event["name"] == "thread_name"}
    assert {(event["pid"], event["tid"]) for event in added if event["ph"] in "Xi"} <= named
    assert all(event["dur"] >= 0 for event in added if event["ph"] == "X")
    flags = [event for event in added if event["ph"] == "i"]
    assert {event["name"] for event in flags} <= {finding.cause for finding in report.findings}
    told = [
        event["name"]
        for event in added
        if event["ph"] == "X" and event["name"].split(":")[0] in {finding.cause for finding in report.findings}
    ]
    assert len(told) == len(report.findings)


def test_what_is_no_plain_file_is_written_to_and_stays_what_it_is(tmp_path: Path) -> None:
    found = api.explained(gpuwhy.load(str(DEMO)))
    link, target = tmp_path / "link.json", tmp_path / "target.json"
    link.symlink_to(target)
    write(found, str(link))
    assert link.is_symlink()
    assert json.loads(target.read_bytes())
    write(found, "/dev/null")
    assert not Path("/dev/null").is_file()


@needs_shared
def test_every_public_profile_that_is_whole_gets_tracks_that_nest(tmp_path: Path) -> None:
    tried = 0
    for path in sorted((SHARED / "traces").rglob("*.json*")):
        if path.stat().st_size > LARGEST:
            continue
        try:
            found = api.explained(gpuwhy.load(str(path)))
        except GpuwhyError:
            continue
        if found.parts is None or found.parts.basis.timeline.sources[0].damage:
            continue
        out = tmp_path / "out.json"
        write(found, str(out))
        try:
            whole = json.loads(out.read_bytes())
        except ValueError:  # as the profile itself: some hold text that is not JSON to Python
            with pytest.raises(ValueError, match=r"."):
                read(path)
            continue
        check_nesting([e for e in (whole if isinstance(whole, list) else whole["traceEvents"]) if is_added(e)])
        tried += 1
    assert tried > 20


def test_where_the_list_of_events_begins_is_found_behind_anything() -> None:
    begin = _list_of_events
    assert begin(b'[{"ph": "X"}]') == 1
    head = b' {"a": [1, {"traceEvents": [2]}], "b": "traceEvents\\": [", "traceEvents" : ['
    assert begin(head + b'{"ph": "X"}, []]') == len(head)
    assert begin(b'{"traceEvents": {"x": [') is None
    assert begin(b'{"traceEvents": ') is None
    assert begin(b'{"a": "not at its end yet }[') is None


def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    out = tmp_path / "out.json.gz"
    several = gpuwhy_command("explain", str(DEMO), str(DEMO), "--perfetto", str(out))
    assert (several.returncode, "one profile at a time" in several.stderr) == (2, True)
    cut = tmp_path / "cut.json"
    cut.write_bytes(gzip.decompress(DEMO.read_bytes())[:-20_000])
    damaged = gpuwhy_command("explain", str(cut), "--perfetto", str(out))
    assert (damaged.returncode, "damaged" in damaged.stderr) == (2, True)
    saved = tmp_path / "saved.gpuwhy"
    gpuwhy.load(str(DEMO)).save(str(saved))
    onto = gpuwhy_command("explain", str(DEMO), "--perfetto", str(DEMO))
    assert (onto.returncode, "would be lost" in onto.stderr) == (2, True)
    nowhere = gpuwhy_command("explain", str(DEMO), "--perfetto", str(tmp_path / "none" / "out.json"))
    assert (nowhere.returncode, "cannot write" in nowhere.stderr) == (2, True)
    assert not out.exists()
    assert not list(tmp_path.glob("*.partial"))
