"""Recorded profiles: the ledger sums to the window, and busy time, span and counts equal an independent count.

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
from gpuwhy.errors import GpuwhyError

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

    whole = gpuwhy.explain(timeline, window="all")
    assert [(d.device, d.operations, d.window_ns, d.busy_ns) for d in whole.devices] == devices

    try:
        steady = gpuwhy.explain(timeline)
    except GpuwhyError as error:
        pytest.fail(f"explained whole, but not by its steps: {error}")
    for report in (whole, steady):
        for device in report.devices:
            assert sum(entry.ns for entry in device.ledger) == device.window_ns
            assert sum(entry.ns for entry in device.ledger if entry.account.startswith("busy/")) == device.busy_ns
            assert all(entry.ns > 0 for entry in device.ledger)
            assert len({entry.account for entry in device.ledger}) == len(device.ledger)


@pytest.mark.parametrize(("file", "devices"), profiles())
def test_columns_are_in_order(file: str, devices: list[Row]) -> None:
    """What every later stage relies on: the order of rows, and row numbers that exist."""
    timeline = gpuwhy.load(str(SHARED / file))
    ops, calls = timeline.ops, timeline.calls
    assert (np.diff(ops.device) >= 0).all()
    assert (np.diff(ops.start)[np.diff(ops.device) == 0] >= 0).all()
    assert (np.diff(calls.thread) >= 0).all()
    assert (np.diff(calls.start)[np.diff(calls.thread) == 0] >= 0).all()
    assert (ops.end >= ops.start).all()
    assert (calls.end >= calls.start).all()
    assert ops.launch.max() < len(calls)
    assert len(timeline.devices) == len(devices)
    linked = ops.launch >= 0
    same = (calls.correlation[ops.launch] == ops.correlation) | (calls.external_id[ops.launch] == ops.external_id)
    assert same[linked].all() or timeline.sources[0].era in ("K0", "K1", "K2")  # these may link by arrows
