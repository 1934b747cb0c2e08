"""One report of a run: what its profile told, and what only the run could tell."""

from __future__ import annotations

from pathlib import Path

import msgspec

import gpuwhy
from gpuwhy.reports.findings_model import FindingInfo, Interval, IntervalNs, MendInfo
from gpuwhy.reports.model import Report
from gpuwhy.reports.run_model import RunInfo
from gpuwhy.run.joined import joined, without_profile

DEMO = str(Path(__file__).resolve().parents[1] / "src/gpuwhy/data/demo.pt.trace.json.gz")
RUN = RunInfo(
    folder="run",
    command=["python", "train.py"],
    wall_ns=10,
    exit_status=0,
    signal=None,
    ended="ended",
    processes=[],
    throughput=None,
    ledger=[],
    gpus=[],
    memory=None,
    compilations=[],
    problems=[],
)


def found(cause: str, mend: str, mid: float) -> FindingInfo:
    """A finding with one mend, after which a step takes this part of its time."""
    return FindingInfo(
        cause=cause,
        rank=0,
        device=0,
        title=f"there is {cause}",
        evidence=[],
        refuted_by="",
        mends=[
            MendInfo(
                id=mend,
                text="",
                code=None,
                after_over_before=Interval(low=mid, mid=mid, high=mid),
                step_after_ns=IntervalNs(low=1, mid=1, high=1),
                samples=1.0,
            )
        ],
        explains=[],
    )


def demo() -> Report:
    """Its first finding is `input` with `loader_workers` (0.16), its second `launch` (0.88)."""
    return gpuwhy.explain(DEMO)


def test_a_profile_to_which_the_run_adds_nothing_stays_as_it_is() -> None:
    assert joined(demo(), RUN, []) == msgspec.structs.replace(demo(), run=RUN)


def test_what_brings_most_comes_first_and_is_the_verdict() -> None:
    report = joined(demo(), RUN, [found("garbage_collection", "gc_off_loop", 0.1)])
    assert [finding.cause for finding in report.findings] == ["garbage_collection", "input", "launch"]
    assert report.verdict.cause == "garbage_collection"
    assert report.verdict.text.startswith("There is garbage_collection. GPU 0 is busy 2.5 % of the time.")
    assert "makes its batches itself" not in report.verdict.text


def test_what_brings_less_leaves_the_verdict() -> None:
    report = joined(demo(), RUN, [found("garbage_collection", "gc_off_loop", 0.5)])
    assert [finding.cause for finding in report.findings] == ["input", "garbage_collection", "launch"]
    assert report.verdict == demo().verdict
    assert report.together == demo().together


def test_what_the_profile_finds_too_stays_as_the_replay_has_it() -> None:
    assert joined(demo(), RUN, [found("input", "loader_workers", 0.01)]).findings == demo().findings


def test_where_all_cores_are_taken_no_more_workers_are_advised() -> None:
    report = joined(demo(), RUN, [found("host_contention", "fewer_workers", 0.6)])
    assert [finding.cause for finding in report.findings] == ["host_contention", "launch"]
    assert report.findings[0].explains == ["input"]
    assert report.verdict.cause == "host_contention"
    assert report.together is None  # it was replayed with those workers


def test_without_a_profile_findings_stand_and_the_ledger_is_withheld() -> None:
    report = without_profile(RUN, [found("checkpoint", "checkpoint_rarely", 0.5)], "it is cut")
    assert [finding.cause for finding in report.findings] == ["checkpoint"]
    assert [(item.what, item.why) for item in report.withheld] == [("ledger of the device", "it is cut")]
    assert report.devices == []
    assert report.sound


def test_a_run_of_which_nothing_was_seen_has_no_verdict() -> None:
    report = without_profile(RUN, [], None)
    assert report.verdict.text.startswith("No verdict: nothing was seen of the program")
    assert (report.verdict.healthy, report.verdict.cause) == (None, None)
