"""A comparison → one HTML file."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from gpuwhy.reports.compare_model import Comparison
from gpuwhy.reports.html.context import FILTERS
from gpuwhy.reports.html.limits import MOST_BYTES, plain_all
from gpuwhy.reports.html.sheet import sheet
from gpuwhy.reports.text_compare import about_side, gate_words, signed
from gpuwhy.reports.words import meaning, ms

SCRIPTS = ("static/pictures.js", "static/compare.js")
MOST_BARS = 16
LIMITS = ((300, 1_500), (150, 400), (50, 150))
"""Rows of a table and characters of a text; tighter until the page is small enough."""
WORDS: dict[str, Callable[..., object]] = {
    "condition": gate_words,
    "side": about_side,
    "signed": signed,
    "meaning": meaning,
}


def render(found: Comparison) -> str:
    """The whole page, of at most `limits.MOST_BYTES` bytes.

    Raises GpuwhyError where Jinja is not installed.
    """
    page = ""
    for rows, longest in LIMITS:
        page = _page(found, rows, longest)
        if len(page.encode()) <= MOST_BYTES:
            break
    return page


def _page(found: Comparison, rows: int, longest: int) -> str:
    shown = msgspec.structs.replace(found, accounts=found.accounts[:rows], kernels=found.kernels[:rows])
    found = plain_all(shown, longest)
    data = {
        "unit": found.unit,
        "accounts": found.accounts[:MOST_BARS],
        "lengths": [found.before.lengths_ns, found.after.lengths_ns],
    }
    values = {
        "found": found,
        "version": found.gpuwhy,
        "verdict": found.verdict,
        "about": f"{found.before.label} → {found.after.label}",
        "figures": list(_figures(found)),
    }
    return sheet("compare.html", SCRIPTS, data, values, {**FILTERS, **WORDS})


def _figures(found: Comparison) -> Iterator[tuple[str, str, str]]:
    """What the page leads with."""
    for label, change in ((f"median {found.unit}", found.typical), (f"mean {found.unit}", found.average)):
        if change is not None:
            ratio = change.ratio
            within = f"{ratio.low:.3f} to {ratio.high:.3f}, {'more than' if change.differs else 'within'} noise"
            yield label, f"× {ratio.mid:.3f}", "cannot tell" if change.differs is None else within
    for label, side in (("before", found.before), ("after", found.after)):
        if side.median_ns is not None:
            yield label, f"{ms(side.median_ns)} ms", f"a step, the median of {side.steps:,}"
