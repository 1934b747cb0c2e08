"""Two paths and conditions → the comparison with its gates."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gpuwhy.compare.differences import compare
from gpuwhy.compare.gate import Condition, judge
from gpuwhy.compare.sides import side
from gpuwhy.redact.names import Names
from gpuwhy.reports.compare_model import Comparison
from gpuwhy.sources.load import Progress


def compared(
    before: str,
    after: str,
    conditions: Sequence[Condition] = (),
    samples: tuple[float | None, float | None] = (None, None),
    redact: bool = False,
    on_progress: Progress | None = None,
) -> Comparison:
    """Read both sides, compare them, and judge the conditions; with `redact` private names are replaced.

    Raises GpuwhyError where one of them cannot be read.
    """
    names = Names() if redact else None
    one, other = side(before, samples[0], names, on_progress), side(after, samples[1], names, on_progress)
    found = compare(one, other)
    return msgspec.structs.replace(found, gates=[judge(condition, found, one, other) for condition in conditions])
