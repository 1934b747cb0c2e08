"""Check that the ledger of a grown profile is the sum of the ledgers of its copies, to the nanosecond.

    python benchmarks/ledger_of_copies.py SOURCE.json.gz GROWN.json.gz

The window of each device is cut at the first start and the last end of each copy: what lies in a copy must be the
ledger of the source, account by account, and what lies between copies must be idle.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import gpuwhy
from gpuwhy.ledger.partition import Ledger, balance, basis
from gpuwhy.steps import Selection, Steps, Window, window
from gpuwhy.timeline import Timeline


def whole(timeline: Timeline, device: int) -> Ledger:
    """The ledger of all that a device recorded."""
    found = window(timeline, device, Selection(everything=True))
    if found is None:
        sys.exit("no device work in the profile")
    return balance(basis(timeline), device, found)


def copies_of(source: Timeline, grown: Timeline, device: int) -> Window:
    """The whole window of a grown profile, cut where its copies begin and end."""
    part, more = source.ops_of(device), grown.ops_of(device)
    each, all_of_them = part.stop - part.start, more.stop - more.start
    if all_of_them % each:
        sys.exit(f"{all_of_them:,} operations are no whole number of copies of {each:,}")
    first = grown.ops.start[more][::each]
    length = int(source.ops.end[part].max() - source.ops.start[part][0])
    edge = np.column_stack((first, first + length)).ravel()
    steps = Steps("copies", np.arange(1, len(edge)), edge, open_ended=True, recorded=len(edge) - 1)
    return Window(int(edge[0]), int(edge[-1]), "copies", steps)


def check(source: str, grown: str) -> bool:
    """Compare the two files; prints what it found."""
    small, large = gpuwhy.load(source), gpuwhy.load(grown)
    good = len(small.devices) == len(large.devices)
    shared = basis(large)
    for device in range(len(small.devices)):
        wanted = whole(small, device)
        ledger = balance(shared, device, copies_of(small, large, device))
        parts = ledger.by_step[::2]
        want = np.array(
            [dict(zip(wanted.accounts, wanted.ns.tolist(), strict=True)).get(a, 0) for a in ledger.accounts]
        )
        between = ledger.by_step[1::2][:, [a.startswith("busy/") for a in ledger.accounts]]
        same = bool((parts == want).all() and parts.sum() == len(parts) * wanted.window_ns and not between.any())
        good = good and same
        print(
            f"device {device}: {len(parts):,} copies, {len(ledger.accounts)} accounts, {wanted.window_ns:,} ns each: "
            + ("each copy has the ledger of the source" if same else "DIFFERENT from the source")
        )
    return good


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("grown")
    options = parser.parse_args()
    sys.exit(0 if check(options.source, options.grown) else 1)
