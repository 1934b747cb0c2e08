"""What to change, as lines for a terminal: first what the best mends bring, further down what speaks for each."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwhy.reports import model
from gpuwhy.reports.findings_model import FindingInfo, Interval, MendInfo
from gpuwhy.reports.words import ms

Line = tuple[str, str, str]
"""A kind of line (of `text.STYLES` and `text.INDENTS`), its text, and figures for its right end."""

MOST = 3
"""Mends that the report leads with."""


def headline(report: model.Report) -> Iterator[Line]:
    """The best mends with their gains, and the time after all of them; or why none is told."""
    findings = report.findings
    why = next((item.why for item in report.withheld if item.what == "gains"), None)
    if why is not None:
        yield "head", "what to change", ""
        yield "note", f"not told: {why}", ""
    if not findings or report.replay is None or report.replay.step_ns is None:
        return
    yield "head", "what to change", f"{'ms a step':>16}  {'time a sample':>21}"
    yield "row", now(report), f"{ms(report.replay.step_ns):>16}  {'':>21}"
    of = report.replay.distortion
    if report.step.unprofiled_ns is not None and of is not None and of.how == "usual":
        yield "told", "the step time does not tell how much the profiler slowed the host: that is taken as usual", ""
    if len(report.devices) > 1:
        yield "told", "each mend is replayed on its own rank alone, the others stay as they are", ""
    rows = leading(report)
    for number, (finding, mend) in enumerate(rows[:MOST], 1):
        yield "row", f"{number}. {_who(report, finding)}{finding.cause}: {mend.id}", _figures(mend)
        yield "told", mend.text, ""
        if mend.code:
            yield "code", mend.code, ""
    if report.together is not None and len(report.together.mends) > 1:
        after = report.together.step_after_ns
        yield "row", f"together{_on(report)}", f"{ms(after.mid):>16}  {ratio(report.together.after_over_before):>21}"
        yield "told", ", ".join(report.together.mends), ""
    if len(rows) > MOST:
        yield "more", f"{len(rows) - MOST} more below", ""


def leading(report: model.Report) -> list[tuple[FindingInfo, MendInfo]]:
    """The best mend of each finding, then what goes with it or in its place."""
    best = [(one, one.mends[0]) for one in report.findings]
    return best + [(one, mend) for one in report.findings for mend in one.mends[1:]]


def question(report: model.Report) -> Iterator[Line]:
    """The answer to the user's own question."""
    asked = report.what_if
    if asked is None or report.replay is None or report.replay.step_ns is None:
        return
    yield "head", f"what if: {', '.join(asked.changes)}", f"{'ms a step':>16}  {'time a sample':>21}"
    now = f"{ms(report.replay.step_ns)} → {ms(asked.step_after_ns.mid)}"
    yield "row", f"without the profiler{_on(report)}", f"{now:>16}  {ratio(asked.after_over_before):>21}"
    if asked.nothing:
        yield "note", f"nothing to change in this profile, or it cannot be done: {', '.join(asked.nothing)}", ""


def now(report: model.Report) -> str:
    """What a step is now; the report's own figures are with the profiler."""
    recorded = report.replay.recorded_step_ns if report.replay is not None else None
    how = "as given" if report.step.unprofiled_ns is not None else "estimated"
    profiled = f" (profiled: {ms(recorded)})" if recorded is not None else ""
    return f"now, {how}{profiled}{_on(report)}"


def _on(report: model.Report) -> str:
    """Which device the replay is of, where there are several."""
    of = report.replay
    return f", rank {of.rank}, GPU {of.device}" if of is not None and len(report.devices) > 1 else ""


def _figures(mend: MendInfo) -> str:
    return f"{ms(mend.step_after_ns.mid):>16}  {ratio(mend.after_over_before):>21}"


def ratio(of: Interval) -> str:
    """A ratio with its interval, with as many digits as say something."""
    digits = 2 if of.mid >= 0.1 else 3 if of.mid >= 0.01 else 4
    return f"× {of.mid:.{digits}f} [{of.low:.{digits}f}, {of.high:.{digits}f}]"


def _who(report: model.Report, finding: FindingInfo) -> str:
    return f"rank {finding.rank}, GPU {finding.device}, " if len(report.devices) > 1 else ""


def details(report: model.Report) -> Iterator[Line]:
    """Every finding with its evidence, what would refute it, and all its mends."""
    for finding in report.findings:
        yield "finding", f"{_who(report, finding)}{finding.cause}: {finding.title}", ""
        for sentence in finding.evidence:
            yield "told", sentence, ""
        if finding.explains:
            yield "told", f"with it goes: {', '.join(finding.explains)}", ""
        for mend in finding.mends:
            more = f", {mend.samples:,.0f} times the samples a step" if mend.samples != 1 else ""
            yield "mend", f"→ {mend.id}: {mend.text}{more}", ""
            if mend.code and report.replay is None:  # else the head of the report shows it
                yield "code", mend.code, ""
            yield "more", f"  a step of {ms(mend.step_after_ns.mid)} ms, time a sample", ratio(mend.after_over_before)
        yield "told", f"refuted by: {finding.refuted_by}", ""
