"""The report for a terminal: the largest loss in one sentence, then the tree, then what else to know.

Readable at 80 columns and without colour. Names come from strangers' files: they are never interpreted as markup and
lose their control characters.
"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from gpuwhy.reports import model
from gpuwhy.reports.words import clean, kernel_name, meaning, ms, shorten, size

if TYPE_CHECKING:
    from rich.console import Console

LEAST_SHARE = 0.005
"""Accounts below this share of the window are summed in one line."""
LEAST_WEIGHT = 0.01
"""Host calls and kernels below this share of the window are not listed."""
TELL_COPIES = ("idle/outside_operators", "idle/serialization", "idle/host_compute", "idle/untraced")
"""Idle accounts that copies next to them help to explain; a sync or a loader explains itself."""
MOST_LEAVES = 5
"""Frames, annotations or kinds of copies listed under one account."""
MOST_DEVICES = 2
"""With more devices than this, one line each and the details of the least busy one."""
MOST_WIDTH, LEAST_WIDTH = 100, 60
FIGURES = 21
"""Width of the two columns of figures."""

LEVEL_STYLE = {"note": "cyan", "warn": "yellow", "fail": "bold red"}


def render(report: model.Report, console: Console) -> None:
    """Print a report."""
    _Page(report, console).render()


class _Page:
    def __init__(self, report: model.Report, console: Console) -> None:
        self.report, self.console = report, console
        self.width = max(LEAST_WIDTH, min(console.width, MOST_WIDTH))

    def render(self) -> None:
        report = self.report
        names = sorted({name or "unnamed device" for name in report.source.devices})
        files = report.source.files
        about = f" · PyTorch profile ({report.source.era}) · {clean(', '.join(names))}"
        what = clean(files[0]) if len(files) == 1 else f"{len(files)} files"
        self.line(_tail(what, max(self.width - len(about), 10)) + about, style="dim")
        self.line()
        self.paragraph(report.verdict.text, style="bold")
        self.line()
        devices = report.devices
        if len(devices) > MOST_DEVICES:
            self.overview()
            devices = [min(devices, key=lambda d: d.busy_ns / d.window_ns)]
        for device in devices:
            self.device(device)
        self.trust()

    def line(self, text: str = "", figures: str = "", style: str = "") -> None:
        """One line, cut to the width, figures at its right end."""
        room = self.width - (len(figures) + 1 if figures else 0)
        text = shorten(text, room)
        self.console.print(
            (text.ljust(room) + " " + figures if figures else text),
            style=style or None,
            markup=False,
            highlight=False,
        )

    def paragraph(self, text: str, style: str = "", first: str = "", rest: str = "") -> None:
        for part in textwrap.wrap(clean(text), self.width, initial_indent=first, subsequent_indent=rest):
            self.line(part, style=style)

    def overview(self) -> None:
        self.line("Devices", f"{'busy':>10} {'unknown':>10}", style="bold")
        for device in self.report.devices:
            loss = f"{device.largest_loss.name} {100 * device.largest_loss.share:.1f} %"
            self.line(
                f"  {_label(self.report, device)}: {loss}",
                f"{_share(device.busy_ns, device.window_ns):>10} {_share(device.unknown_ns, device.window_ns):>10}",
            )
        self.line()
        self.line("Details of the least busy one (choose with --device):", style="dim")
        self.line()

    def device(self, device: model.DeviceReport) -> None:
        steps = [step for step in device.steps if not step.startup]
        count = len(steps)
        self.paragraph(f"{_label(self.report, device)}, {_window(self.report, device)}")
        self.line()
        unit = "ms a step" if count else "ms"
        self.line("where the time went", f"{unit:>11} {'of window':>9}", style="bold")
        parts = max(count, 1)
        groups = {"busy": device.busy_ns, "idle": device.window_ns - device.busy_ns}
        for group in sorted(groups, key=lambda g: -groups[g]):
            if groups[group]:
                self.row(0, group, groups[group], parts, device, style="bold")
                self.accounts(device, group, parts)
        self.line()
        self.beside(device, parts)

    def row(self, depth: int, text: str, ns: int, parts: int, device: model.DeviceReport, style: str = "") -> None:
        figures = f"{ms(ns / parts):>11} {_share(ns, device.window_ns):>9}"
        self.line("  " * depth + text, figures, style)

    def accounts(self, device: model.DeviceReport, group: str, parts: int) -> None:
        """The accounts of a group, those that share a name under it together; small ones in one line."""
        families: dict[str, list[model.Entry]] = {}
        for entry in device.ledger:
            if entry.account.startswith(group + "/"):
                families.setdefault(entry.account.split("/")[1], []).append(entry)
        total = {name: sum(e.ns for e in entries) for name, entries in families.items()}
        shown = [name for name in families if total[name] >= LEAST_SHARE * device.window_ns]
        for name in sorted(shown, key=lambda n: -total[n]):
            entries = families[name]
            alone = len(entries) == 1
            label = entries[0].account.split("/", 1)[1] if alone else name
            told = meaning(entries[0].account if alone else f"{group}/{name}")
            self.row(1, f"{clean(label):<17} {told}", total[name], parts, device)
            if alone:
                self.weights(device, entries[0], parts)
            else:
                self.leaves(device, entries, parts)
            self.copies(device, f"{group}/{name}", total[name], parts)
        small = [name for name in families if name not in shown]
        if small:
            rest = sum(total[name] for name in small)
            self.row(1, f"{len(small)} smaller: {', '.join(sorted(small))}", rest, parts, device)

    def leaves(self, device: model.DeviceReport, entries: list[model.Entry], parts: int) -> None:
        shown = [e for e in entries if e.share >= LEAST_SHARE][:MOST_LEAVES]
        for entry in shown:
            told = meaning(entry.account)
            label = clean(entry.account.split("/", 2)[2])
            self.row(2, f"{label}: {told}" if told else label, entry.ns, parts, device)
            self.weights(device, entry, parts)
        rest = [e for e in entries if e not in shown]
        if rest:
            self.row(2, f"{len(rest)} smaller", sum(e.ns for e in rest), parts, device)

    def copies(self, device: model.DeviceReport, account: str, ns: int, parts: int) -> None:
        """The copies that most of an idle account lies next to."""
        if account not in TELL_COPIES:
            return
        near: dict[str, int] = {}
        for one in device.next_to_copy:
            if one.account == account or one.account.startswith(account + "/"):
                near[one.copy] = near.get(one.copy, 0) + one.ns
        for copy, part in near.items():
            if part >= 0.5 * ns:
                some = next(one for one in device.next_to_copy if one.copy == copy)
                each = " a step" if any(not step.startup for step in device.steps) else ""
                moved = f" of together {size(some.bytes / parts)}" if some.bytes is not None else ""
                often = f"{some.copies / parts:,.0f}{moved}{each}"
                self.line(f"      {_share(part, ns)} of it next to {meaning(copy)} ({often})", style="dim")

    def weights(self, device: model.DeviceReport, entry: model.Entry, parts: int) -> None:
        """What weighs most in an account, and where it was called from."""
        for weight in device.weights:
            if weight.account != entry.account or weight.ns < LEAST_WEIGHT * device.window_ns:
                continue
            name = clean(weight.name)
            often = weight.count / parts
            times = f"{often:,.0f} ×" if often >= 1 else f"{weight.count} in all ×"
            label = kernel_name(name) if entry.account.startswith("busy/") else name
            is_frame = name in entry.account
            if not is_frame:
                self.row(3, f"{times} {label}", weight.ns, parts, device, style="dim")
            path = _callers(weight.path, weight.name)
            if path:
                lead = "        in " if is_frame else "        from "
                self.line(lead + _join(path, self.width - len(lead)), style="dim")

    def beside(self, device: model.DeviceReport, parts: int) -> None:
        """What costs nothing by itself, or was left out, or is not known."""
        if device.largest_loss.name in ("host-bound", "waiting"):
            loss = device.largest_loss
            names = ", ".join(account.split("/")[1] for account in loss.accounts)
            self.row(0, f"{loss.name}: {names}", loss.ns, parts, device, style="bold")
        for entry in device.hidden:
            if entry.share >= LEAST_SHARE:
                self.row(0, f"hidden: {entry.account} under other work", entry.ns, parts, device)
        total = sum(wait.ns for wait in device.after_sync)
        if total >= LEAST_SHARE * device.window_ns:
            self.row(0, "idle that follows a blocking call (counted above)", total, parts, device)
            for wait in device.after_sync:
                path = _callers(wait.path, wait.call)
                lead = f"{clean(wait.call)}{' from ' if path else ''}"
                text = lead + _join(path, max(self.width - FIGURES - len(lead) - 4, 10))
                self.row(1, text, wait.ns, parts, device, style="dim")
        self.row(0, "not known (untraced, or host code without frames)", device.unknown_ns, parts, device)
        startup = [step for step in device.steps if step.startup]
        if startup:
            numbers = f"{startup[0].number}" + (f" to {startup[-1].number}" if len(startup) > 1 else "")
            total = sum(step.ns for step in startup)
            self.paragraph(f"start-up, not judged: step {numbers}, {ms(total)} ms in all")
        self.line()

    def trust(self) -> None:
        told = [check for check in self.report.trust if check.level != "ok"]
        if not told:
            self.line(f"This profile passed all {len(self.report.trust)} checks of its own soundness.", style="dim")
            return
        self.line("About this profile", style="bold")
        for check in told:
            self.paragraph(
                f"{check.level}: {check.detail}",
                LEVEL_STYLE.get(check.level, ""),
                first="  ",
                rest="        ",
            )
            if check.advice:
                self.paragraph(f"→ {check.advice}", first="        ", rest="          ")


def _label(report: model.Report, device: model.DeviceReport) -> str:
    rank = f"rank {device.rank}, " if len(report.source.ranks) > 1 else ""
    return f"{rank}GPU {device.device}"


def _window(report: model.Report, device: model.DeviceReport) -> str:
    """What was judged, and how long a step took."""
    steps = [step for step in device.steps if not step.startup]
    length = f"{ms(device.window_ns)} ms"
    if not steps:
        return f"{length} of the recording"
    which = f"step {steps[0].number}" if len(steps) == 1 else f"steps {steps[0].number} to {steps[-1].number}"
    order = sorted(step.ns for step in steps)
    median = ms(order[len(order) // 2])
    text = f"{which} ({report.window.how}): {length}, median step {median} ms ({ms(order[0])} to {ms(order[-1])})"
    if device.left_out is not None:
        text += f"; step {device.left_out} is left out, its end is not recorded"
    return text


def _share(ns: int, of: int) -> str:
    return f"{100 * ns / max(of, 1):.1f} %"


LIBRARY = re.compile(
    r"<built-in|<string>|<frozen|(torch|torchvision|contextlib|functools|threading|runpy)\b.*\.py\(|<eval"
)
"""Python frames that say little about where in the user's program something happened."""
LAUNCH_CALL = re.compile(r"(cuda|cu|hip)[A-Z]\w+$")


def _callers(path: list[str], name: str) -> list[str]:
    """The path without repeats, without the call itself, the launch call and, if others remain, library frames."""
    kept = [part for i, part in enumerate(path) if part != name and (not i or part != path[i - 1])]
    kept = [part for part in kept if not LAUNCH_CALL.match(part)]
    return [part for part in kept if not LIBRARY.match(part)] or kept


def _join(path: list[str], width: int) -> str:
    """As many of the innermost callers as fit, outermost first."""
    text = ""
    for part in reversed([clean(part).removeprefix("autograd::engine::evaluate_function: ") for part in path]):
        longer = f"{part} › {text}" if text else part
        if len(longer) > width - 2:
            return f"… › {text}" if text else shorten(part, width)
        text = longer
    return text


def _tail(text: str, width: int) -> str:
    """The end of a path: the innermost callers say most."""
    return text if len(text) <= width else "…" + text[-(width - 1) :]
