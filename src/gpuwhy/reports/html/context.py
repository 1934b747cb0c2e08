"""A report → what the page's template asks for: the ledger as a tree, and figures in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from gpuwhy.ledger.accounts import within
from gpuwhy.ledger.partition import Ledger
from gpuwhy.reports import model, text_findings, text_roofline, text_run
from gpuwhy.reports.callpaths import callers
from gpuwhy.reports.headings import about, device_label, window_text
from gpuwhy.reports.html.limits import Limits, plain, plain_all, plain_kernel, some
from gpuwhy.reports.html.scene import DeviceScene, Scene, StepBars
from gpuwhy.reports.html.tables import step_bars
from gpuwhy.reports.roofline_model import RooflineInfo
from gpuwhy.reports.text_findings import Line
from gpuwhy.reports.words import meaning, ms, number, size

DEEPEST = 6
"""Callers of a heavy call or kernel that are told, the innermost ones."""

LONGEST_LOSS = 200

T = TypeVar("T")


@dataclass(frozen=True)
class Node:
    """One account, or what weighs most in it."""

    name: str
    meaning: str
    ns: int
    share: float
    """Of the window."""
    kind: str
    """`group`, `account`, `weight` or `rest`."""
    account: str
    path: list[str] = field(default_factory=list)
    count: int | None = None
    children: list[Node] = field(default_factory=list)


@dataclass(frozen=True)
class DeviceView:
    """One device of the report, as the page shows it; `scene` is None where it is not drawn."""

    id: str
    label: str
    window: str
    report: model.DeviceReport
    steps: int
    tree: list[Node]
    use: list[Line]
    bars: StepBars
    scene: DeviceScene | None


def context(full: model.Report, pictures: Scene, limits: Limits) -> dict[str, Any]:
    """The variables of the template."""
    scenes = {(one.rank, one.device): one for one in pictures.devices}
    report = msgspec.structs.replace(
        plain_all(msgspec.structs.replace(full, devices=[]), limits.text), devices=full.devices
    )
    leading, more_mends = some(text_findings.leading(report), limits.lines // 2)
    findings, more_findings = some(report.findings, limits.lines // 2)
    devices = [full.devices[place] for place in least_busy(full.devices, limits.devices)]
    files, more_files = some(report.source.files, limits.lines // 5)
    return {
        "report": report,
        "version": report.gpuwhy,
        "verdict": report.verdict.text,
        "about": about(report, limits.text),
        "figures": list(figures(report)),
        "devices": [device_view(full, device, scenes.get((device.rank, device.device)), limits) for device in devices],
        "more_devices": len(full.devices) - len(devices),
        "run_lines": few(text_run.headline(report), limits),
        "counter_lines": few(text_run.counters(report), limits),
        "run_ledger": few(text_run.ledger(report), limits),
        "question": few(text_findings.question(report), limits),
        "now": text_findings.now(report),
        "leading": leading,
        "more_mends": more_mends,
        "findings": findings,
        "more_findings": more_findings,
        "gains_withheld": [item.why for item in report.withheld if item.what == "gains"],
        "told": [check for check in report.trust if check.level != "ok"][: limits.lines],
        "files": files,
        "more_files": more_files,
        "pictures": pictures,
    }


def least_busy(devices: Sequence[model.DeviceReport | Ledger], most: int) -> list[int]:
    """The places of those that could do more, ascending."""
    order = sorted(range(len(devices)), key=lambda place: devices[place].busy_ns / devices[place].window_ns)
    return sorted(order[:most])


def few(lines: Iterable[Line], limits: Limits) -> list[Line]:
    """Lines, no more than a page has room for."""
    kept, more = some(list(lines), limits.lines)
    short = [(kind, plain(text, limits.text), plain(right, limits.text)) for kind, text, right in kept]
    return [*short, ("note", f"{more:,} lines more in the text report", "")] if more else short


def figures(report: model.Report) -> Iterator[tuple[str, str, str]]:
    """What the page leads with: a label, a figure, and a note."""
    run = report.run
    if run is not None and run.throughput is not None:
        of = run.throughput
        if of.samples_per_s is not None:
            yield "samples a second", number(of.samples_per_s), ""
        yield "steps a second", number(of.steps_per_s), f"{ms(of.step_ns.mean)} ms a step"
    if not report.devices:
        return
    worst = min(report.devices, key=lambda device: device.busy_ns / device.window_ns)
    who = device_label(report, worst) if len(report.devices) > 1 else "of the window"
    step = report.step.median_ns
    if step is not None:
        yield (
            "median step, profiled",
            f"{ms(step)} ms",
            f"{ms(report.step.p10_ns or step)} to {ms(report.step.p90_ns or step)}",
        )
    yield "device busy", percent(worst.busy_ns / worst.window_ns), who
    yield (
        "largest part" if within(worst.largest_loss.name, "busy") else "largest loss",
        percent(worst.largest_loss.share),
        plain(worst.largest_loss.name, LONGEST_LOSS),
    )
    if report.together is not None and len(report.together.mends) > 1:
        figure, _, interval = text_findings.ratio(report.together.after_over_before).partition(" [")
        yield f"after {len(report.together.mends)} mends together", figure, f"time a sample [{interval}"
    if worst.unknown_ns:
        yield "not explained", percent(worst.unknown_ns / worst.window_ns), who


def device_view(
    report: model.Report, device: model.DeviceReport, scene: DeviceScene | None, limits: Limits
) -> DeviceView:
    """One device."""
    steps = sum(not step.startup for step in device.steps)
    use = text_roofline.section(device.roofline, max(steps, 1), bool(steps)) if device.roofline is not None else ()
    return DeviceView(
        id=f"r{device.rank}d{device.device}",
        label=device_label(report, device),
        window=window_text(report, device),
        report=msgspec.structs.replace(device, roofline=_roofline(device, limits)),
        steps=steps,
        tree=tree(device, limits),
        use=few(use, limits),
        bars=step_bars(device, limits.steps),
        scene=scene,
    )


def _roofline(device: model.DeviceReport, limits: Limits) -> RooflineInfo | None:
    """With names and shapes that fit into a table."""
    of = device.roofline
    if of is None:
        return None
    return msgspec.structs.replace(of, operators=plain_all_of(of.operators[: limits.rows], limits.name))


def plain_all_of(values: Sequence[T], most: int) -> list[T]:
    """Structs with plain text."""
    return [plain_all(value, most) for value in values]


def tree(device: model.DeviceReport, limits: Limits) -> list[Node]:
    """Busy and idle, their accounts, those below them, and what weighs most; every level sums to the one above."""
    groups = [_group(device, name, limits) for name in ("busy", "idle")]
    return sorted((group for group in groups if group.ns), key=lambda group: -group.ns)


def _group(device: model.DeviceReport, name: str, limits: Limits) -> Node:
    weights: dict[str, list[model.Weight]] = {}
    for weight in device.weights:
        weights.setdefault(weight.account, []).append(weight)
    families: dict[str, list[model.Entry]] = {}
    for entry in device.ledger:
        if within(entry.account, name):
            families.setdefault("/".join(entry.account.split("/")[:2]), []).append(entry)
    below = _Below(device, weights, limits)
    nodes = [below.family(account, entries) for account, entries in families.items()]
    words = {"busy": "the device ran something", "idle": "the device ran nothing"}
    return below.node(name, name, words[name], "group", sorted(nodes, key=lambda node: -node.ns))


@dataclass(frozen=True)
class _Below:
    """Makes what is below a group of a device's ledger."""

    device: model.DeviceReport
    weights: dict[str, list[model.Weight]]
    """By account."""
    limits: Limits

    def family(self, account: str, entries: list[model.Entry]) -> Node:
        """An account with those below it; many of them are summed up but for the largest."""
        if len(entries) == 1 and entries[0].account.count("/") == 1:
            return self.leaf(entries[0], account.split("/", 1)[1])
        large, small = entries, []
        if len(entries) > self.limits.parts:
            ordered = sorted(entries, key=lambda entry: -entry.ns)
            large, small = ordered[: self.limits.parts], ordered[self.limits.parts :]
        leaves = [self.leaf(entry, entry.account.split("/", 2)[-1]) for entry in large]
        if small:
            rest = sum(entry.ns for entry in small)
            name = f"{len(small):,} more with less time each"
            leaves.append(Node(name, "", rest, self.share(rest), "rest", account))
        return self.node(account, account.split("/", 1)[1], meaning(account), "account", leaves)

    def leaf(self, entry: model.Entry, name: str) -> Node:
        """An account, with the calls or kernels that weigh most in it, and the rest."""
        longest = self.limits.name
        children = [
            Node(
                name=plain_kernel(weight.name, longest),
                meaning="",
                ns=weight.ns,
                share=self.share(weight.ns),
                kind="weight",
                account=plain(entry.account, longest),
                path=[plain(part, longest) for part in callers(weight.path, weight.name)[-DEEPEST:]],
                count=weight.count,
            )
            for weight in self.weights.get(entry.account, [])[: self.limits.parts]
        ]
        rest = entry.ns - sum(child.ns for child in children)
        account = plain(entry.account, longest)
        if children and rest > 0:
            children.append(Node("others", "", rest, self.share(rest), "rest", account))
        words = meaning(entry.account)
        return Node(plain(name, longest), words, entry.ns, entry.share, "account", account, children=children)

    def node(self, account: str, name: str, words: str, kind: str, children: list[Node]) -> Node:
        """What others are below."""
        ns = sum(child.ns for child in children)
        return Node(name, words, ns, self.share(ns), kind, account, children=children)

    def share(self, ns: int) -> float:
        """Of the window."""
        return ns / max(self.device.window_ns, 1)


def percent(share: float | None, digits: int = 1) -> str:
    """A share as a percentage; a dash where it is not known."""
    return "–" if share is None else f"{100 * share:.{digits}f} %"


def leading_capital(text: str) -> str:
    """A sentence's first letter made large, and nothing else: names keep theirs."""
    return text[:1].upper() + text[1:]


def sections(lines: list[Line]) -> Iterator[tuple[str, str, list[Line]]]:
    """Lines cut at their headings: (heading, its figures, lines)."""
    head, figures = "", ""
    some: list[Line] = []
    for kind, text, right in lines:
        if kind == "head":
            if some:
                yield head, figures, some
            head, figures, some = text, right, []
        elif text:
            some.append((kind, text, right))
    if some:
        yield head, figures, some


FILTERS: dict[str, Callable[..., object]] = {
    "ms": ms,
    "number": number,
    "size": size,
    "percent": percent,
    "ratio": text_findings.ratio,
    "sections": sections,
    "sentence": leading_capital,
}
