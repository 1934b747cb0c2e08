"""One report of a run: what its profile told, and what only the run could tell."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gpuwhy.reports import model
from gpuwhy.reports.findings_model import FindingInfo
from gpuwhy.reports.run_model import RunInfo
from gpuwhy.version import __version__

FEWER_WORKERS, MORE_WORKERS = "fewer_workers", ("more_workers", "loader_workers")
NO_STEPS = (
    "no steps were seen: no optimizer stepped, no data loader was iterated, and no model was called; "
    "call gpuwhy.step() once a turn of the loop"
)
ONE_STEP = "only one step was seen, which is too few to tell anything"
NOTHING_SEEN = "nothing was seen of the program: no Python process in it loaded the probe, or none imported torch"


def joined(report: model.Report, run: RunInfo, found: Sequence[FindingInfo]) -> model.Report:
    """The profile's report with the run's findings among its own, what brings most first.

    What the profile finds, too, stays as it found it: its gains are replayed.
    """
    if not report.sound:
        return msgspec.structs.replace(report, run=run)
    known = {finding.cause for finding in report.findings}
    new = [finding for finding in found if finding.cause not in known]
    if not new:
        return msgspec.structs.replace(report, run=run)
    findings = _sifted([*new, *report.findings])
    verdict = report.verdict
    first = findings[0]
    if first.cause not in known:
        verdict = model.Verdict(text=f"{_sentence(first)} {_without_first(report)}", healthy=False, cause=first.cause)
    mends = {mend.id for finding in findings for mend in finding.mends}
    together = report.together if report.together is not None and mends.issuperset(report.together.mends) else None
    return msgspec.structs.replace(report, run=run, findings=findings, verdict=verdict, together=together)


def _sifted(findings: Sequence[FindingInfo]) -> list[FindingInfo]:
    """The findings, what brings most first, without mends that another one refutes: where all cores are taken no more
    workers can help, and a loop that waits for its workers waits for cores.
    """
    findings = sorted(findings, key=_best)
    if not any(mend.id == FEWER_WORKERS for finding in findings for mend in finding.mends):
        return findings
    kept, gone = [], []
    for finding in findings:
        mends = [mend for mend in finding.mends if mend.id not in MORE_WORKERS]
        kept.append(msgspec.structs.replace(finding, mends=mends))
        gone += [finding.cause] if not mends else []
    return [
        msgspec.structs.replace(one, explains=gone) if one.mends[0].id == FEWER_WORKERS else one
        for one in kept
        if one.mends
    ]


def _best(finding: FindingInfo) -> float:
    return min((mend.after_over_before.mid for mend in finding.mends if mend.samples == 1), default=1.0)


def _without_first(report: model.Report) -> str:
    """The verdict's text without the sentence on the profile's first finding, or on its health."""
    sentences = report.verdict.text.split(". ")
    return (
        ". ".join(sentences[1:]) if len(sentences) > 1 and report.verdict.healthy is not None else report.verdict.text
    )


def _sentence(finding: FindingInfo) -> str:
    return f"{finding.title[0].upper()}{finding.title[1:]}."


def without_profile(run: RunInfo, found: Sequence[FindingInfo], why: str | None) -> model.Report:
    """A report of what the probe and the counters told, where no profile was recorded or none is of use."""
    findings = _sifted(found)
    withheld = [model.Withheld(what="ledger of the device", why=why or _unprofiled(run))]
    return model.Report(
        gpuwhy=__version__,
        source=model.SourceInfo(format="run", era="", files=[], devices=[], ranks=[], events=0),
        window=model.WindowInfo(start_ns=0, end_ns=0, steps=None, how="all", origin_ns=0),
        step=_step(run),
        devices=[],
        trust=[],
        replay=None,
        verdict=_verdict(run, findings, why),
        findings=findings,
        together=None,
        what_if=None,
        withheld=withheld,
        run=run,
    )


def _unprofiled(run: RunInfo) -> str:
    return "no profile was recorded" + ("" if run.gpus else ", because no GPU was used")


def _step(run: RunInfo) -> model.StepInfo:
    of = run.throughput
    if of is None:
        return model.StepInfo(count=0, median_ns=None, p10_ns=None, p90_ns=None, unprofiled_ns=None, samples=None)
    return model.StepInfo(
        count=of.steady_steps,
        median_ns=round(of.step_ns.median),
        p10_ns=round(of.step_ns.p10),
        p90_ns=round(of.step_ns.p90),
        unprofiled_ns=round(of.step_ns.mean),
        samples=None,
    )


def _verdict(run: RunInfo, findings: Sequence[FindingInfo], why: str | None) -> model.Verdict:
    of = run.throughput
    if of is None:
        told = (ONE_STEP if run.processes[0].steps else NO_STEPS) if run.processes else NOTHING_SEEN
        return model.Verdict(text=f"No verdict: {told}.", healthy=None, cause=None)
    text = f"{_sentence(findings[0])} " if findings else ""
    if not run.gpus and of.clock == "host":
        parts = [
            f"{100 * of.input_wait:.0f} % of a step passes in the data loader" if of.input_wait is not None else "",
            f"the loop's thread computes {100 * of.loop_cores:.0f} % of the time" if of.loop_cores is not None else "",
        ]
        told = ", ".join(filter(None, parts)) or "how much of a step is computing is not known"
        text += f"No GPU was used: {told}. A GPU could take over what torch's operators compute, and nothing else."
    else:
        text += f"Where the GPU's time went is not told: {why or 'no profile was recorded'}."
    cause = findings[0].cause if findings else None
    return model.Verdict(text=text, healthy=False if findings else None, cause=cause)
