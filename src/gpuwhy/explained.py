"""What explaining came to, with what it was drawn from: a report says what was found, pictures need the stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuwhy.reports.build import Parts
    from gpuwhy.reports.model import Report
    from gpuwhy.run.seen import Seen
    from gpuwhy.run.watch import Sample


@dataclass(frozen=True, eq=False)
class Watched:
    """What was seen of a run: its processes that made steps, the counters, and when it was (CLOCK_MONOTONIC, ns)."""

    begun_ns: int
    ended_ns: int
    seen: Sequence[Seen]
    samples: Sequence[Sample]


@dataclass(frozen=True, eq=False)
class Explained:
    """A report with the stages that it was made from; `parts` is None without a profile, `watched` without a run."""

    report: Report
    parts: Parts | None = None
    watched: Watched | None = None
    redacted: bool = False
    """Private names are replaced: nothing may be copied from the inputs any more."""
