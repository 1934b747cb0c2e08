"""Predicted against measured gains, for every pair of recordings whose mend was timed in turns without a profiler.

    python benchmarks/gains.py [--write docs/gains.md]

Looks at the pairs in tests/data (gains, waste, unseen, reshaped and held_out), and in $GPUWHY_SHARED (../shared) where
it is there.
A gain is *right* when |ln(predicted / measured)| ≤ ln 1.25, or it is off by under 2 % of the base step, or it lies
within the measured interval.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import gpuwhy
from gpuwhy.findings.advice import Told
from gpuwhy.findings.outlook import outlook
from gpuwhy.ledger.partition import balance, basis
from gpuwhy.reports.findings_model import Interval
from gpuwhy.reports.model import Report
from gpuwhy.roofline.ceilings import choose
from gpuwhy.roofline.judge import judge as judge_busy
from gpuwhy.roofline.work import work_of_operations
from gpuwhy.steps import Selection, window
from gpuwhy.timeline import Timeline
from gpuwhy.whatif.batch import larger_batch
from gpuwhy.whatif.period import step_ns
from gpuwhy.whatif.setting import Setting

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("GPUWHY_SHARED") or REPOSITORY.parent / "shared")
NEAR, LITTLE = math.log(1.25), 0.02
NOTHING = Interval(low=1 - LITTLE, mid=1.0, high=1 + LITTLE)
"""Of a mend that the recording has nothing for: it is predicted to bring next to nothing."""
BEGIN, END = "<!-- table: {} -->", "<!-- end -->"

ZOO = {
    "loader_cpu": "loader_workers",
    "loader_few_workers": "more_workers",
    "pageable_copy": "pinned_prefetch",
    "item_every_step": "no_item",
    "unfused_elementwise": "compile",
    "launch_bound_decode": "cuda_graphs",
    "loop_optimizer": "fused_optimizer",
    "fp32_matmul": "precision",
    "odd_vocab": "shape",
    "empty_cache": "keep_memory",
    "naive_attention": "fused_attention",
    "checkpoint_each_step": "checkpoint_rarely",
    "batch_too_small": "larger_batch",
    "eager_stacks": "compile",
    "well_fed_gpt": None,
}
"""The mend that each case of the zoo was mended with; None for the healthy one."""
WASTES = {
    "layout": "channels_last",
    "recompute": "no_recompute",
    "unfused_norms": "compile",
    "unfused_encoder": "compile",
    "unfused_optimizer": "fused_optimizer",
    "casts_back_and_forth": "one_type",
    "attention_inference": "fused_attention",
    "attention_math": "fused_attention",
}
"""The mends of the wastes that are not named like their cause."""


@dataclass(frozen=True)
class Pair:
    """A recording, what is wrong in it, and the measured gain of its mend (None for healthy ones)."""

    name: str
    base: Path
    second: Path | None
    cause: str
    mend: str | None
    measured: float | None
    ci95: tuple[float, float] | None
    step_s: float | None
    samples: float = 1.0


@dataclass(frozen=True)
class Judged:
    """A prediction held against its measurement."""

    pair: Pair
    cause: str | None
    predicted: Interval | None
    second: tuple[float, float] | None
    """A step after the mend as the profile of the mended loop has it, and as predicted with the profiler on, in ns."""
    offered: dict[str, float]
    """All mends that are told, with their gains."""

    @property
    def right(self) -> bool:
        """Whether the gain is right."""
        pair = self.pair
        return self.predicted is not None and is_right(self.predicted.mid, pair.measured or 1.0, pair.ci95)

    @property
    def inside(self) -> bool:
        """Whether the interval contains the measured ratio."""
        return self.predicted is not None and self.predicted.low <= (self.pair.measured or 1.0) <= self.predicted.high

    @property
    def second_right(self) -> bool:
        """Whether the second profile's step was predicted."""
        return self.second is not None and is_right(self.second[1] / self.second[0], 1.0, None)


def is_right(predicted: float, measured: float, ci95: tuple[float, float] | None) -> bool:
    """The definition at the top."""
    return (
        abs(math.log(predicted / measured)) <= NEAR
        or abs(predicted - measured) <= LITTLE
        or (ci95 is not None and ci95[0] <= predicted <= ci95[1])
    )


def zoo() -> Iterator[Pair]:
    """The pairs of the shared zoo."""
    folder = SHARED / "zoo"
    for row in json.loads((folder / "truth.json").read_text()):
        name, mend = row["name"], ZOO[row["name"]]
        samples = row["fixed"]["samples"] / row["base"]["samples"] if "fixed" in row else 1.0
        yield Pair(
            name,
            folder / f"traces/{name}.base.json.gz",
            folder / f"traces/{name}.fixed.json.gz" if mend else None,
            row["cause"],
            mend,
            row.get("after_over_before"),
            tuple(row["ci95"]) if "ci95" in row else None,
            row["base"]["step_s"],
            samples,
        )


def own() -> Iterator[Pair]:
    """The pairs of record_gains.py."""
    return _recorded(REPOSITORY / "tests/data/gains")


def unseen() -> Iterator[Pair]:
    """The pairs of record_unseen.py."""
    return _recorded(REPOSITORY / "tests/data/unseen")


def _recorded(folder: Path) -> Iterator[Pair]:
    for row in json.loads((folder / "truth.json").read_text()):
        yield Pair(
            row["name"],
            folder / f"{row['name']}.json.gz",
            None,
            row["cause"] or "busy",
            row["mend"],
            row["after_over_before"],
            tuple(row["ci95"]),
            row["base_step_s"],
            row["samples"],
        )


def reshaped() -> Iterator[Pair]:
    """The pairs of record_reshaped.py."""
    return _recorded(REPOSITORY / "tests/data/reshaped")


def held_out() -> Iterator[Pair]:
    """The pairs of record_held_out.py."""
    return _recorded(REPOSITORY / "tests/data/held_out")


def wastes() -> Iterator[Pair]:
    """The pairs of record_waste.py; what a step took without a profiler was not kept there."""
    folder = REPOSITORY / "tests/data/waste"
    for row in json.loads((folder / "truth.json").read_text()):
        if "after_over_before" in row and row["cause"] is not None:
            ci95 = tuple(row["ci95"])
            path = folder / f"{row['name']}.json.gz"
            yield Pair(
                row["name"],
                path,
                None,
                row["cause"],
                WASTES.get(row["name"], row["cause"]),
                row["after_over_before"],
                ci95,
                None,
            )


SETS: dict[str, Callable[[], Iterator[Pair]]] = {
    "zoo": zoo,
    "own": own,
    "wastes": wastes,
    "unseen": unseen,
    "reshaped": reshaped,
    "held_out": held_out,
}


def judge(pair: Pair, with_step_time: bool, timeline: Timeline | None = None) -> Judged:
    """Predict, and hold it against what was measured; `timeline` is the pair's, if it has been read already."""
    what_if = {"larger_batch": f"batch={pair.samples:g}", "precision": None}.get(pair.mend or "precision", pair.mend)
    step_time = pair.step_s if with_step_time else None
    report = gpuwhy.explain(timeline or str(pair.base), step_time=step_time, what_if=what_if)
    offered = {mend.id: mend.after_over_before.mid for f in reversed(report.findings) for mend in reversed(f.mends)}
    second = _second(pair) if with_step_time else None  # the same without
    return Judged(pair, report.verdict.cause, _predicted(report, pair, offered), second, offered)


def _predicted(report: Report, pair: Pair, offered: dict[str, float]) -> Interval | None:
    """The gain of the pair's mend: as offered, or else as the answer to the question what it would bring."""
    if report.verdict.healthy is None:
        return None
    if pair.mend != "larger_batch" and pair.mend in offered:
        return next(m.after_over_before for f in report.findings for m in f.mends if m.id == pair.mend)
    asked = report.what_if
    return asked.after_over_before if asked is not None and not asked.nothing else NOTHING


def _second(pair: Pair) -> tuple[float, float] | None:
    """Mean step of the mended recording, and the replay of the mended graph with the profiler's stretch left in."""
    if pair.second is None:
        return None
    setting, advice = _looked(pair.base)
    if setting is None:
        return None
    if pair.mend == "larger_batch":
        change = larger_batch(setting)(pair.samples)
    else:
        change = next(offer.mend.expected for told in advice for offer in told.offers if offer.mend.id == pair.mend)
    predicted = step_ns(change(setting.graph), setting.period)
    mended = gpuwhy.explain(str(pair.second)).replay
    return (float(mended.recorded_step_ns or 0), predicted) if mended is not None else None


def _looked(path: Path) -> tuple[Setting | None, list[Told]]:
    """The setting of a recording's first device, and what is told of it."""
    timeline = gpuwhy.load(str(path))
    of, judged = basis(timeline), window(timeline, 0, Selection())
    assert judged is not None
    ledger = balance(of, 0, judged)
    device = timeline.devices[0]
    roofline = judge_busy(of, ledger, work_of_operations(timeline), choose(device.name, device.sm_count))
    (found,) = outlook(of, [ledger], [roofline], [], None)
    setting = found.replayed.setting if found.replayed is not None else None
    return setting, found.advice.told if found.advice is not None else []


def table(judged: list[Judged], with_step_time: bool) -> list[str]:
    """Rows of Markdown."""
    lines = [
        "| case | mend | measured | predicted | right | interval holds it |",
        "|---|---|---|---|---|---|",
    ]
    for one in judged:
        if one.pair.mend is None or one.pair.measured is None:
            continue
        low, high = one.pair.ci95 or (one.pair.measured, one.pair.measured)
        told = "withheld"
        if one.predicted is not None:
            told = f"{one.predicted.mid:.3f} [{one.predicted.low:.3f}, {one.predicted.high:.3f}]"
            told += "" if one.pair.mend in one.offered else ", not offered"
        lines.append(
            f"| {one.pair.name} | {one.pair.mend} | {one.pair.measured:.3f} [{low:.3f}, {high:.3f}] | {told} "
            f"| {'yes' if one.right else 'no'} | {'yes' if one.inside else 'no'} |"
        )
    return [*lines, "", summary(judged, with_step_time)]


def summary(judged: list[Judged], with_step_time: bool) -> str:
    """One sentence on a table."""
    some = [one for one in judged if one.pair.mend is not None and one.pair.measured is not None]
    right, inside = sum(one.right for one in some), sum(one.inside for one in some)
    widths = [one.predicted.high / one.predicted.low for one in some if one.predicted is not None]
    how = "With" if with_step_time else "Without"
    return (
        f"{how} the step time: {right} of {len(some)} are right, {inside} of {len(some)} lie within their interval, "
        f"whose ends are in the median a factor of {statistics.median(widths):.2f} apart."
    )


def second_table(judged: list[Judged]) -> list[str]:
    """Rows of Markdown on the second profiles."""
    lines = ["| case | mend | recorded step, ms | predicted, ms | right |", "|---|---|---|---|---|"]
    some = [one for one in judged if one.second is not None]
    for one in some:
        recorded, predicted = one.second or (0.0, 0.0)
        lines.append(
            f"| {one.pair.name} | {one.pair.mend} | {recorded / 1e6:.2f} | {predicted / 1e6:.2f} "
            f"| {'yes' if one.second_right else 'no'} |"
        )
    return [*lines, "", f"{sum(one.second_right for one in some)} of {len(some)} are right."]


def sections() -> dict[str, list[str]]:
    """The tables of docs/gains.md by their names; those of the zoo only where it is there."""
    found: dict[str, list[str]] = {}
    for name, pairs in SETS.items():
        if name == "zoo" and not SHARED.is_dir():
            continue
        some = list(pairs())
        if any(pair.step_s is not None for pair in some):
            judged = [judge(pair, True) for pair in some]
            found[f"{name}, with step time"] = table(judged, True)
            if name == "zoo":
                found["zoo, second profile"] = second_table(judged)
        found[f"{name}, without step time"] = table([judge(pair, False) for pair in some], False)
    return found


def written(text: str, tables: dict[str, list[str]]) -> str:
    """A document with its tables replaced."""
    for name, lines in tables.items():
        before, begin, rest = text.partition(BEGIN.format(name))
        if not begin:
            raise SystemExit(f"no place for the table '{name}'")
        _, end, after = rest.partition(END)
        text = f"{before}{begin}\n\n" + "\n".join(lines) + f"\n\n{end}{after}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", type=Path, metavar="FILE", help="replace the tables in this document")
    options = parser.parse_args()
    tables = sections()
    if options.write:
        options.write.write_text(written(options.write.read_text(), tables))
    for name, lines in tables.items():
        print(f"\n{name}\n", *lines, sep="\n")


if __name__ == "__main__":
    main()
