"""Recorded profiles: the ledger sums to the window; busy time, span and counts equal an independent count; the era.

`busy.tsv` holds, for each device of each profile, the operations, the ns from the first start to the last end, and
the ns in which at least one ran, computed without this package.
"""

from __future__ import annotations

import csv
from collections import defaultdict

import numpy as np
import pytest
from conftest import NO_SHARED, SHARED

import gpuwhy
from gpuwhy.ledger.partition import balance, basis
from gpuwhy.steps import Selection, window
from gpuwhy.timeline import Timeline

Row = tuple[int, int, int, int]  # device, operations, span, busy


def profiles() -> list[object]:
    rows: dict[str, list[Row]] = defaultdict(list)
    for folder in ("traces", "zoo"):
        table = SHARED / folder / "busy.tsv"
        if table.is_file():
            with table.open() as lines:
                for line in csv.DictReader(lines, delimiter="\t"):
                    numbers = (line["device"], line["operations"], line["span_ns"], line["busy_ns"])
                    rows[f"{folder}/{line['file']}"].append(tuple(map(int, numbers)))  # type: ignore[arg-type]
    if not rows:
        return [pytest.param("", [], marks=pytest.mark.skip(reason=NO_SHARED))]
    return [pytest.param(file, sorted(devices), id=file) for file, devices in rows.items()]


@pytest.mark.parametrize(("file", "devices"), profiles())
def test_every_nanosecond(file: str, devices: list[Row]) -> None:
    timeline = gpuwhy.load(str(SHARED / file))
    of = basis(timeline)
    counted: list[Row] = []
    for device, about in enumerate(timeline.devices):
        for chosen in (Selection(everything=True), Selection()):
            judged = window(timeline, device, chosen)
            assert judged is not None
            ledger = balance(of, device, judged)
            assert int(ledger.ns.sum()) == ledger.window_ns == judged.end - judged.start
            assert (ledger.by_step.sum(axis=0) == ledger.ns).all()
            assert (ledger.by_step.sum(axis=1) == np.diff(ledger.edge)).all()
            assert (ledger.ns > 0).all()
            assert len(set(ledger.accounts)) == len(ledger.accounts)
            if chosen.everything:
                counted.append((about.number, ledger.operations, ledger.window_ns, ledger.busy_ns))
    assert sorted(counted) == devices
    rows_are_in_order(timeline)


def rows_are_in_order(timeline: Timeline) -> None:
    """What every later stage relies on: the order of rows, and row numbers that exist."""
    ops, calls = timeline.ops, timeline.calls
    assert (np.diff(ops.device) >= 0).all()
    assert (np.diff(ops.start)[np.diff(ops.device) == 0] >= 0).all()
    assert (np.diff(calls.thread) >= 0).all()
    assert (np.diff(calls.start)[np.diff(calls.thread) == 0] >= 0).all()
    assert (ops.end >= ops.start).all()
    assert (calls.end >= calls.start).all()
    assert ops.launch.max() < len(calls)
    linked = ops.launch >= 0
    same = (calls.correlation[ops.launch] == ops.correlation) | (calls.external_id[ops.launch] == ops.external_id)
    assert same[linked].all()


# --- eras ---------------------------------------------------------------------------------------------------

HAND_MADE = {"mpashkovskiy__pytorch-trace-tui/test_trace.json": "K2"}
"""Times with fractions and nothing in its header: no era; the manifest takes it for K3 by its times."""


def eras() -> list[object]:
    table = SHARED / "traces" / "MANIFEST.tsv"
    if not table.is_file():
        return [pytest.param("", "", marks=pytest.mark.skip(reason=NO_SHARED))]
    with table.open() as lines:
        rows = [line for line in csv.DictReader(lines, delimiter="\t") if line["kind"].startswith("chrometrace")]
    eras = {line["file"]: line["schema"].split()[0] for line in rows} | HAND_MADE
    return [pytest.param(file, era, id=file) for file, era in eras.items()]


@pytest.mark.parametrize(("file", "era"), eras())
def test_era_of_every_file(file: str, era: str) -> None:
    timeline = gpuwhy.load(str(SHARED / "traces" / file))
    source = timeline.sources[0]
    assert source.era == era
    assert (source.damage, source.malformed, source.implausible) == (None, 0, 0)
    times = np.concatenate((timeline.ops.start, timeline.calls.start)) + timeline.origin_ns
    assert (source.resolution_ns == 1000) == (not (times % 1000).any() and era in ("K1", "K2a", "K2"))
