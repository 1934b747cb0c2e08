"""The report for a terminal: the largest loss in one sentence, then the tree, then what else to know.

Readable at 80 columns and without colour. Names come from strangers' files: they are never interpreted as markup and
lose their control characters.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpuwhy.ledger.accounts import within
from gpuwhy.reports import model, text_findings, text_run
from gpuwhy.reports.beside import mostly_next_to
from gpuwhy.reports.callpaths import callers
from gpuwhy.reports.headings import about, device_label, window_text
from gpuwhy.reports.terminal import Page
from gpuwhy.reports.text_roofline import section, use_line
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
SPREAD, SPREAD_WIDTH = 15, 96
"""Width of the column of spreads, and of the page from which on it is shown."""
LEAST_STEPS = 3
"""Fewer steps have no spread."""

STYLES = {"head": "bold", "more": "dim", "note": "dim", "code": "cyan"}
INDENTS: dict[str, tuple[str, str | None]] = {
    "row": ("  ", None),
    "more": ("      ", None),
    "note": ("  ", "  "),
    "told": ("    ", "    "),
    "mend": ("    ", "      "),
    "code": ("      ", "        "),
    "finding": ("  ", "    "),
}
"""Of the roofline's lines: how far they are indented, and the further lines of a paragraph (None: it is one line)."""
LEVEL_STYLE = {"note": "cyan", "warn": "yellow", "fail": "bold red"}


def render(report: model.Report, console: Console) -> None:
    """Print a report."""
    _Page(report, console).render()


class _Page(Page):
    def __init__(self, report: model.Report, console: Console) -> None:
        super().__init__(console)
        self.report = report

    def render(self) -> None:
        report = self.report
        self.line(about(report, self.width), style="dim")
        self.line()
        self.lines(text_run.headline(report))
        self.lines(text_run.counters(report))
        self.paragraph(report.verdict.text, style="bold")
        self.line()
        self.lines(text_run.ledger(report))
        self.lines(text_findings.question(report))
        self.lines(text_findings.headline(report))
        devices = report.devices
        if len(devices) > MOST_DEVICES:
            self.overview()
            devices = [min(devices, key=lambda d: d.busy_ns / d.window_ns)]
        for device in devices:
            _Section(self, device).render()
        self.findings()
        self.trust()

    def lines(self, some: Iterable[tuple[str, str, str]]) -> None:
        """Lines of some kinds; with an empty one behind them."""
        told = ""
        for kind, text, figures in some:
            told = text
            indent, hanging = INDENTS.get(kind, ("", None))
            if hanging is None:
                self.row(indent + clean(text), figures, STYLES.get(kind, ""))
            else:
                self.paragraph(text, STYLES.get(kind, ""), first=indent, rest=hanging)
        if told:
            self.line()

    def row(self, text: str, figures: str, style: str) -> None:
        """A line that says what the figures are of: on a line of its own where there is no room beside them."""
        if figures and len(text) + 1 + len(figures) > self.width:
            self.line(text, style=style)
            text = ""
        self.line(text, figures, style)

    def findings(self) -> None:
        """What speaks for each finding."""
        if self.report.findings:
            self.line("why, and what would refute it", style="bold")
            self.lines(text_findings.details(self.report))

    def overview(self) -> None:
        self.line("Devices", f"{'busy':>10} {'unknown':>10}", style="bold")
        for device in self.report.devices:
            loss = f"{device.largest_loss.name} {100 * device.largest_loss.share:.1f} %"
            self.line(
                f"  {device_label(self.report, device)}: {loss}",
                f"{_share(device.busy_ns, device.window_ns):>10} {_share(device.unknown_ns, device.window_ns):>10}",
            )
        self.line()
        self.line("Details of the least busy one (choose with --device):", style="dim")
        self.line()

    def trust(self) -> None:
        if not self.report.trust:
            return
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


class _Section:
    """The part of the page on one device."""

    def __init__(self, page: _Page, device: model.DeviceReport) -> None:
        self.page, self.device = page, device
        self.steps = [step for step in device.steps if not step.startup]
        self.parts = max(len(self.steps), 1)
        self.spread = page.width >= SPREAD_WIDTH and len(self.steps) >= LEAST_STEPS

    def render(self) -> None:
        device, page = self.device, self.page
        page.paragraph(f"{device_label(page.report, device)}, {window_text(page.report, device)}")
        page.line()
        unit = "ms a step" if self.steps else "ms"
        spread = f"{'p10 to p90':>{SPREAD}}" if self.spread else ""
        page.line("where the time went", f"{unit:>11}{spread}  {'of window':>9}", style="bold")
        groups = {"busy": device.busy_ns, "idle": device.window_ns - device.busy_ns}
        for group in sorted(groups, key=lambda g: -groups[g]):
            if groups[group]:
                self.row(0, group, groups[group], style="bold")
                self.accounts(group)
        page.line()
        self.beside()
        self.roofline()

    def row(self, depth: int, text: str, ns: int, style: str = "", entry: model.Entry | None = None) -> None:
        """A line with time a step (the mean), its spread over the steps where that is known, and share."""
        spread = ""
        if self.spread:
            low_high = entry.per_step[1:] if entry is not None and entry.per_step else []
            spread = f"{' to '.join(map(ms, low_high)):>{SPREAD}}"
        figures = f"{ms(ns / self.parts):>11}{spread}  {_share(ns, self.device.window_ns):>9}"
        self.page.line("  " * depth + text, figures, style)

    def accounts(self, group: str) -> None:
        """The accounts of a group, those that share a name under it together; small ones in one line."""
        families: dict[str, list[model.Entry]] = {}
        for entry in self.device.ledger:
            if within(entry.account, group):
                families.setdefault(entry.account.split("/")[1], []).append(entry)
        total = {name: sum(e.ns for e in entries) for name, entries in families.items()}
        shown = [name for name in families if total[name] >= LEAST_SHARE * self.device.window_ns]
        for name in sorted(shown, key=lambda n: -total[n]):
            first, *others = families[name]
            if others:
                self.row(1, f"{clean(name):<17} {meaning(f'{group}/{name}')}", total[name])
                self.leaves(families[name])
            else:
                self.alone(first)
                self.weights(first)
            self.copies(f"{group}/{name}", total[name])
        small = [name for name in families if name not in shown]
        if len(small) == 1 and len(families[small[0]]) == 1:
            self.alone(families[small[0]][0])
        elif small:
            self.row(1, f"{len(small)} smaller: {', '.join(sorted(small))}", sum(total[name] for name in small))

    def alone(self, entry: model.Entry) -> None:
        """The line of an account that shares its name with no other."""
        label = entry.account.split("/", 1)[1]
        self.row(1, f"{clean(label):<17} {meaning(entry.account)}", entry.ns, entry=entry)
        self.use(entry)

    def leaves(self, entries: list[model.Entry]) -> None:
        """Accounts under one name, each in a line."""
        shown = [e for e in entries if e.share >= LEAST_SHARE][:MOST_LEAVES]
        for entry in shown:
            told = meaning(entry.account)
            label = clean(entry.account.split("/", 2)[2])
            self.row(2, f"{label}: {told}" if told else label, entry.ns, entry=entry)
            self.use(entry)
            self.weights(entry)
        rest = [e for e in entries if e not in shown]
        if rest:
            self.row(2, f"{len(rest)} smaller", sum(e.ns for e in rest))

    def use(self, entry: model.Entry) -> None:
        """How well a busy account was used."""
        roofline = self.device.roofline
        uses = {use.account: use for use in roofline.accounts} if roofline is not None else {}
        told = use_line(uses[entry.account]) if entry.account in uses else None
        if told and entry.share >= LEAST_SHARE:
            self.page.line(f"      {told}")

    def copies(self, account: str, ns: int) -> None:
        """The copies that most of an idle account lies next to."""
        if account not in TELL_COPIES:
            return
        each = " a step" if self.steps else ""
        for some, part in mostly_next_to(self.device.next_to_copy, account, ns):
            moved = f" of together {size(some.bytes / self.parts)}" if some.bytes is not None else ""
            often = f"{some.copies / self.parts:,.0f}{moved}{each}"
            self.page.line(f"      {_share(part, ns)} of it next to {meaning(some.copy)} ({often})", style="dim")

    def weights(self, entry: model.Entry) -> None:
        """What weighs most in an account, and where it was called from."""
        for weight in self.device.weights:
            if weight.account != entry.account or weight.ns < LEAST_WEIGHT * self.device.window_ns:
                continue
            name = clean(weight.name)
            often = weight.count / self.parts
            times = f"{often:,.0f} ×" if often >= 1 else f"{weight.count} in all ×"
            label = kernel_name(name) if entry.account.startswith("busy/") else name
            is_frame = entry.account.startswith("idle/outside_operators/")
            if not is_frame:
                self.row(3, f"{times} {label}", weight.ns, style="dim")
            path = callers(weight.path, weight.name)
            if path:
                lead = "        in " if is_frame else "        heaviest from "
                self.page.line(lead + _join(path, self.page.width - len(lead)), style="dim")

    def beside(self) -> None:
        """What costs nothing by itself, or was left out, or is not known."""
        device, page = self.device, self.page
        loss = device.largest_loss
        if loss.name in ("host-bound", "waiting"):
            names = ", ".join(account.split("/")[1] for account in loss.accounts)
            self.row(0, f"{loss.name}: {names}", loss.ns, style="bold")
        for entry in device.hidden:
            if entry.share >= LEAST_SHARE:
                self.row(0, f"hidden: {entry.account} under other work", entry.ns)
        total = device.after_sync_ns
        if total >= LEAST_SHARE * device.window_ns:
            self.row(0, "idle that follows a blocking call (counted above)", total)
            for wait in device.after_sync:
                self.row(1, f"{wait.count:,} in all × {clean(wait.call)}", wait.ns, style="dim")
                path = callers(wait.path, wait.call)
                if path:
                    page.line("        heaviest from " + _join(path, page.width - 22), style="dim")
        self.row(0, "not known (untraced, or host code without frames)", device.unknown_ns)
        startup = [step for step in device.steps if step.startup]
        if startup:
            numbers = f"{startup[0].number}" + (f" to {startup[-1].number}" if len(startup) > 1 else "")
            page.paragraph(f"start-up, not judged: step {numbers}, {ms(sum(s.ns for s in startup))} ms in all")
        page.line()

    def roofline(self) -> None:
        """How well the busy time was used, and what of it goes to the wrong thing."""
        page = self.page
        if self.device.roofline is None:
            return
        page.lines(section(self.device.roofline, self.parts, bool(self.steps)))


def _share(ns: int, of: int) -> str:
    return f"{100 * ns / max(of, 1):.1f} %"


def _join(path: list[str], width: int) -> str:
    """As many of the innermost callers as fit, outermost first."""
    text = ""
    for part in reversed([clean(part) for part in path]):
        longer = f"{part} › {text}" if text else part
        if len(longer) > width - 2:
            return f"… › {text}" if text else shorten(part, width)
        text = longer
    return text
