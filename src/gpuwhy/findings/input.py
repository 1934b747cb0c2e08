"""The loop waits for its data."""

from __future__ import annotations

import math

from gpuwhy.findings.base import WORTH, Finding, Look, Mend, mend_of, warmed
from gpuwhy.reports.words import ms
from gpuwhy.whatif.changes import Change, composed, not_paced, without_host_time
from gpuwhy.whatif.loader import WORKERS, arrivals
from gpuwhy.whatif.setting import Slices

TAKING = 0.002, 0.0, 0.02
"""Part of the loader's time that is left when workers do the rest and the loop takes a batch from their queue:
expected, at best, at worst."""
BESIDE = 1.0, 0.85, 1.05
"""Time of a loop's own host work beside workers, over that with the loader's work in between: what warm caches give,
the thread that takes the workers' batches takes back (four pairs on H200 hosts: 0.90 to 1.19)."""


def input_(look: Look) -> Finding | None:
    """Batches are made in the loop's own thread, or workers make them more slowly than the loop takes them."""
    setting = look.setting
    loading = setting.slices_of("input") & ~setting.slices_in(setting.pieces(WORKERS))
    own = setting.host_ns(loading)
    if look.is_worth(own):
        return _in_the_loop(look, loading, own)
    waited = setting.waited_ns("input")
    if look.is_worth(waited):
        evidence = [f"the loop waits {look.of_step(waited)} for a batch"]
        return _workers(evidence, without_host_time(setting.producing))
    found = arrivals(setting.of)
    pace = setting.graph.pace_ns
    if found is not None and pace > (1 + WORTH) * look.unprofiled_ns:
        evidence = [
            f"while the loop took {found.taken} batches, about {found.made} were made: the queue was full when "
            f"recording began, and is used up soon",
            f"a batch is made in about {ms(found.pace_ns)} ms, and used in {ms(look.step_ns)}",
        ]
        return _workers(evidence, not_paced)
    return None


def _in_the_loop(look: Look, loading: Slices, own: float) -> Finding:
    rest = max(look.unprofiled_ns - own, 1.0)
    workers = max(math.ceil(own / rest) + 1, 2)
    changes = [
        composed([without_host_time(loading, left), warm])
        for left, warm in zip(TAKING, warmed(look, loading, BESIDE), strict=True)
    ]
    return Finding(
        "input",
        "the loop makes its batches itself, while the device waits",
        [f"the loader works {look.of_step(own)} in the thread of the loop"],
        "a step that is as long with batches made beforehand",
        [
            mend_of(
                "loader_workers",
                f"let worker processes make the batches: about {workers} of them, each with a core of its own, keep up "
                "with the rest of the step",
                f"DataLoader(..., num_workers={workers}, pin_memory=True, persistent_workers=True, prefetch_factor=4)",
                changes,
            )
        ],
    )


def _workers(evidence: list[str], change: Change) -> Finding:
    return Finding(
        "input",
        "the loader's workers make batches more slowly than the loop takes them",
        evidence,
        "a loader that, run alone, is as fast as the loop",
        [
            Mend(
                "more_workers",
                "more workers, as long as there are cores for them, or less work for each item",
                "DataLoader(..., num_workers=<twice as many>, persistent_workers=True)",
                change,
            )
        ],
    )
