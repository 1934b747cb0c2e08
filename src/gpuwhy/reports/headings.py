"""What a report is of, and what was judged, in the words that every format uses."""

from __future__ import annotations

import shlex

from gpuwhy.reports import model
from gpuwhy.reports.words import clean, ms, shorten


def about(report: model.Report, width: int) -> str:
    """What the report is of, in at most `width` columns."""
    names = sorted({name or "GPU not named" for name in report.source.devices})
    devices = f" · {clean(', '.join(names))}" if names else ""
    if report.run is not None:
        what, about = clean(_command(report.run.command)), f"{devices} · {clean(report.run.folder)}"
        return shorten(what, max(width - len(about), 20)) + about
    files = report.source.files
    rest = f" · PyTorch profile ({report.source.era}){devices}"
    what = clean(files[0]) if len(files) == 1 else f"{len(files)} files"
    return _tail(what, max(width - len(rest), 10)) + rest


def _command(words: list[str]) -> str:
    """A command as one would type it, its program without the folder."""
    return shlex.join([words[0].rsplit("/", 1)[-1], *words[1:]]) if words else ""


def device_label(report: model.Report, device: model.DeviceReport) -> str:
    """How a device is called: with its rank where there are several."""
    rank = f"rank {device.rank}, " if len(report.source.ranks) > 1 else ""
    return f"{rank}GPU {device.device}"


def window_text(report: model.Report, device: model.DeviceReport) -> str:
    """What was judged, and how long a step took."""
    steps = [step for step in device.steps if not step.startup]
    length = f"{ms(device.window_ns)} ms"
    if not steps:
        start = device.window_start_ns / 1e6
        return f"{length} of the recording, from {start:,.3f} to {start + device.window_ns / 1e6:,.3f} ms"
    which = f"step {steps[0].number}" if len(steps) == 1 else f"steps {steps[0].number} to {steps[-1].number}"
    order = sorted(step.ns for step in steps)
    middle = (order[(len(order) - 1) // 2] + order[len(order) // 2]) / 2
    spread = f"median {ms(middle)}, {ms(order[0])} to {ms(order[-1])}"
    text = f"{which} ({report.window.how}): {length}, {ms(sum(order) / len(order))} ms a step ({spread})"
    if device.left_out is not None:
        text += f"; step {device.left_out} is left out, its end is not recorded"
    return text


def _tail(text: str, width: int) -> str:
    """The end of a file's path: it says most."""
    return text if len(text) <= width else "…" + text[-(width - 1) :]
