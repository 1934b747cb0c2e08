"""What rules about a run look at: one process's steps and records, and the counters of its steady time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpuwhy.findings.base import WORTH
from gpuwhy.reports.findings_model import FindingInfo, Interval, IntervalNs, MendInfo
from gpuwhy.reports.words import ms
from gpuwhy.run.counters import GpuSummary, ProcessSummary, Summary, ThreadSummary
from gpuwhy.run.journals import Journal
from gpuwhy.run.spans import Spans, covered, joined, spans_of
from gpuwhy.run.steps import Steps, in_thread

FEW = 5
"""Steps without something that are needed to tell what those with it take longer."""
SURE = 0.25
"""A saving that was told by comparison is off by so much of itself."""


@dataclass(frozen=True, eq=False)
class Seen:
    """A process of the run. `summary` is of its steady steps; None: no counters were recorded then."""

    journal: Journal
    steps: Steps
    summary: Summary | None

    @cached_property
    def gpu(self) -> GpuSummary | None:
        """The GPU that it used, if there is just one."""
        gpus = self.summary.gpus if self.summary is not None else []
        return gpus[0] if len(gpus) == 1 else None

    @cached_property
    def process(self) -> ProcessSummary | None:
        """The process itself."""
        found = self.summary.processes if self.summary is not None else []
        return next((one for one in found if one.pid == self.journal.pid), None)

    @property
    def device(self) -> int:
        """The number of its device, as the program numbers them."""
        told = self.journal.noted("device")
        index = told[0].get("index") if told else 0
        return index if isinstance(index, int) else 0

    @property
    def tid(self) -> int | None:
        """The thread of the loop, as the system numbers it."""
        told = self.journal.noted("anchor")
        tid = told[-1].get("tid") if told else None
        return tid if isinstance(tid, int) else None

    @property
    def loop(self) -> ThreadSummary | None:
        """The thread of the loop."""
        threads = self.process.threads if self.process is not None else None
        return next((thread for thread in threads or [] if thread.tid == self.tid), None)

    @cached_property
    def step_ns(self) -> float:
        """A steady step, on average."""
        return float(self.steps.length[self.steps.steady].mean())

    def spans(self, kind: int, everywhere: bool = False) -> Spans:
        """Records of one kind in the thread of the loop, or in any."""
        records = self.journal.of(kind)
        return spans_of(records if everywhere else in_thread(records, self.steps.thread))

    def saving(self, spans: Spans) -> tuple[Interval, float] | None:
        """Time a step without these stretches over that with them, and what they take of a step; None if there are
        none in steady steps.

        What they take of the host is not always what they cost: while the device has enough to do, a pause is free.
        So steps with them are compared with steps without, where there are both.
        """
        steps, steady = self.steps, self.steps.steady
        within = covered(steps.edge, joined(spans))
        touched = steady & (within > 0)
        if not touched.any():
            return None
        total = float(steps.spread[steady].sum())
        own = min(float(within[steady].sum()) / total, 0.99)
        calm = steady & ~touched
        if calm.sum() < FEW:
            return Interval(low=1 - own, mid=1 - own, high=1 - own * (1 - SURE)), own
        longer = float((steps.spread[touched] - np.median(steps.spread[calm])).sum()) / total
        saved = min(max(longer, 0.0), own)
        high = 1 - saved * (1 - SURE)
        return Interval(low=min(1 - own, 1 - saved), mid=1 - saved, high=high), own

    def finding(
        self,
        cause: str,
        title: str,
        evidence: list[str],
        refuted_by: str,
        mend: tuple[str, str, str | None],
        after: Interval,
    ) -> FindingInfo | None:
        """A finding with one mend, if that brings enough."""
        if after.mid > 1 - WORTH:
            return None
        steps = (round(part * self.step_ns) for part in (after.low, after.mid, after.high))
        low, mid, high = steps
        return FindingInfo(
            cause=cause,
            rank=self.journal.rank or 0,
            device=self.device,
            title=title,
            evidence=evidence,
            refuted_by=refuted_by,
            mends=[
                MendInfo(
                    id=mend[0],
                    text=mend[1],
                    code=mend[2],
                    after_over_before=after,
                    step_after_ns=IntervalNs(low=low, mid=mid, high=high),
                    samples=1.0,
                )
            ],
            explains=[],
        )

    def of_step(self, part: float) -> str:
        """A part of a step in words."""
        return f"{ms(part * self.step_ns)} of {ms(self.step_ns)} ms a step"
