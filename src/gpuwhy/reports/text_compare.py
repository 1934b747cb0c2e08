"""A comparison for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuwhy.reports.compare_model import AccountChange, Comparison, GateInfo, KernelChange, SideInfo
from gpuwhy.reports.terminal import Page
from gpuwhy.reports.words import clean, meaning, ms

if TYPE_CHECKING:
    from rich.console import Console

MOST_ACCOUNTS, MOST_KERNELS = 12, 10
LEAST_SHARE = 0.002
"""Accounts whose change is a smaller part of the longer step are not listed."""
STYLES = {"holds": "bold red", "cannot tell": "yellow", "does not hold": "green"}


def render(of: Comparison, console: Console) -> None:
    """Print a comparison."""
    _Page(of, console).render()


class _Page(Page):
    def __init__(self, of: Comparison, console: Console) -> None:
        super().__init__(console)
        self.of = of

    def render(self) -> None:
        of = self.of
        for name, side in (("before", of.before), ("after", of.after)):
            self.line(f"{name:<7} {clean(side.label)}", style="dim")
            self.line(f"        {about_side(side)}", style="dim")
        self.line()
        self.paragraph(of.verdict, style="bold")
        self.line()
        if of.accounts:
            self.accounts()
        if of.kernels:
            self.kernels()
        for gate in of.gates:
            self.gate(gate)
        if of.gates:
            self.line()
        for note in of.notes:
            self.paragraph(f"note: {note}", first="", rest="  ")

    def accounts(self) -> None:
        rows = listed(self.of)
        self.line(
            f"what grew and what shrank, ms a {self.of.unit}", f"{'before':>8} {'after':>8}  {'change':>22}", "bold"
        )
        for row in rows[:MOST_ACCOUNTS]:
            self.line(f"  {clean(row.account):<26} {meaning(row.account)}", figures(row))
        if len(rows) > MOST_ACCOUNTS:
            self.line(f"  {len(rows) - MOST_ACCOUNTS} more", style="dim")
        if any(row.differs is None for row in rows):
            self.line("  whether that is more than noise is not told: too few steps, or none told apart", style="dim")
        self.line()

    def kernels(self) -> None:
        rows = self.of.kernels
        self.line(f"kernels, ms a {self.of.unit}", f"{'before':>8} {'after':>8}  {'number':>22}", "bold")
        for row in rows[:MOST_KERNELS]:
            self.line(f"  {row.change:<9} {clean(row.name)}", kernel_figures(row))
        if len(rows) > MOST_KERNELS:
            self.line(f"  {len(rows) - MOST_KERNELS} more", style="dim")
        self.line()

    def gate(self, gate: GateInfo) -> None:
        self.paragraph(f"{gate.outcome}: {gate_words(gate)}", style=STYLES[gate.outcome], rest="  ")


def about_side(side: SideInfo) -> str:
    """What one side is, in half a sentence."""
    if side.median_ns is None or side.mean_ns is None:
        return "no steps"
    samples = f", {side.samples_per_step:g} samples a step" if side.samples_per_step else ""
    typical = f"median {ms(side.median_ns)} ms, mean {ms(side.mean_ns)}"
    return f"{side.steps:,} steps{samples}, {typical} (clock: {side.clock})"


def listed(of: Comparison) -> list[AccountChange]:
    """The accounts that are worth a line."""
    whole = max(sum(row.before_ns for row in of.accounts), sum(row.after_ns for row in of.accounts))
    return [row for row in of.accounts if abs(row.after_ns - row.before_ns) >= LEAST_SHARE * whole]


def figures(row: AccountChange) -> str:
    """Before, after, and the change with its interval."""
    change = row.after_ns - row.before_ns
    text = f"{signed(change)}"
    if row.difference_ns is not None:
        text += f" [{signed(row.difference_ns.low)}, {signed(row.difference_ns.high)}]"
        text += "" if row.differs else " noise"
    return f"{ms(row.before_ns):>8} {ms(row.after_ns):>8}  {text:>22}"


def signed(ns: float) -> str:
    """Ms with a sign."""
    return f"{'−' if ns < 0 else '+'}{ms(abs(ns))}"


def kernel_figures(row: KernelChange) -> str:
    """Before, after, and how many."""
    number = f"{row.before_count:,.4g} → {row.after_count:,.4g}"
    return f"{ms(row.before_ns):>8} {ms(row.after_ns):>8}  {number:>22}"


def gate_words(gate: GateInfo) -> str:
    """A condition with what was measured."""
    if gate.measured is None:
        return f"{gate.condition} ({gate.why})"
    percent = gate.condition.endswith("%")
    low, mid, high = (
        f"{value:+.1f}" if percent else signed(value)
        for value in (gate.measured.low, gate.measured.mid, gate.measured.high)
    )
    why = f"; {gate.why}" if gate.why else ""
    return f"{gate.condition} (measured {mid} {'%' if percent else 'ms'} [{low}, {high}]{why})"
