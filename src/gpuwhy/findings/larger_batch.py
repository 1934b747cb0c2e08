"""A batch so large that the device becomes the limit."""

from __future__ import annotations

from gpuwhy.findings.base import Look, Mend
from gpuwhy.roofline.memory import reserved_peak
from gpuwhy.whatif.batch import larger_batch
from gpuwhy.whatif.period import step_ns

MOST_TIMES = 1024
SLOWER = 0.25
"""A batch is as large as the device takes without much ado if the step is longer by this part."""


def _memory(look: Look) -> str:
    """What is known of it. Weights and the optimizer's state do not grow with the batch."""
    view = look.setting.view
    size, peak = view.timeline.devices[view.ledger.device].memory_bytes, reserved_peak(view)
    if size is None or peak is None:
        return "record with profile_memory=True"
    return f"at most {peak / 2**30:.1f} of {size / 2**30:.0f} GiB were taken, of which what activations take grows"


def larger(look: Look) -> Mend | None:
    """The batch, a power of two times as large as now, from which on the device is the limit."""
    setting, times = look.setting, 1
    by = larger_batch(setting)
    while times < MOST_TIMES:
        times *= 2
        if step_ns(by(times)(setting.graph), setting.period) > (1 + SLOWER) * look.step_ns:
            break
    else:  # the device never becomes the limit
        return None
    if times == 2:  # something grows with the batch right away
        return None
    return Mend(
        "larger_batch",
        f"a larger batch: with about {times} times as many samples a step the device becomes the limit (if the recipe "
        f"allows it, and memory: {_memory(look)})",
        None,
        by(times),
        samples=float(times),
    )
