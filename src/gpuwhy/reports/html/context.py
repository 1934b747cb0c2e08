"""A report → what the page's template asks for: the ledger as a tree, and figures in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gpuwhy.ledger.accounts import within
from gpuwhy.reports import model, text_findings, text_roofline, text_run
from gpuwhy.reports.callpaths import callers
from gpuwhy.reports.headings import about, device_label, window_text
from gpuwhy.reports.html.scene import DeviceScene, Scene
from gpuwhy.reports.text_findings import Line
from gpuwhy.reports.words import kernel_name, meaning, ms, number, size

BROADEST = 10_000
"""Columns: nothing is cut to a terminal's width."""


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
    scene: DeviceScene | None


def context(report: model.Report, pictures: Scene) -> dict[str, Any]:
    """The variables of the template."""
    scenes = {(one.rank, one.device): one for one in pictures.devices}
    return {
        "report": report,
        "about": about(report, BROADEST),
        "figures": list(figures(report)),
        "devices": [device_view(report, device, scenes.get((device.rank, device.device))) for device in report.devices],
        "run_lines": list(text_run.headline(report)),
        "counter_lines": list(text_run.counters(report)),
        "run_ledger": list(text_run.ledger(report)),
        "question": list(text_findings.question(report)),
        "now": text_findings.now(report),
        "leading": text_findings.leading(report),
        "gains_withheld": [item.why for item in report.withheld if item.what == "gains"],
        "told": [check for check in report.trust if check.level != "ok"],
        "pictures": pictures,
    }


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
        worst.largest_loss.name,
    )
    if report.together is not None:
        after = report.together.after_over_before
        yield "after all mends", f"× {after.mid:.2f}", f"time a sample, {after.low:.2f} to {after.high:.2f}"
    if worst.unknown_ns:
        yield "not explained", percent(worst.unknown_ns / worst.window_ns), who


def device_view(report: model.Report, device: model.DeviceReport, scene: DeviceScene | None) -> DeviceView:
    """One device."""
    steps = sum(not step.startup for step in device.steps)
    use = (
        list(text_roofline.section(device.roofline, max(steps, 1), bool(steps))) if device.roofline is not None else []
    )
    return DeviceView(
        id=f"r{device.rank}d{device.device}",
        label=device_label(report, device),
        window=window_text(report, device),
        report=device,
        steps=steps,
        tree=tree(device),
        use=use,
        scene=scene,
    )


def tree(device: model.DeviceReport) -> list[Node]:
    """Busy and idle, their accounts, those below them, and what weighs most; every level sums to the one above."""
    groups = [_group(device, name) for name in ("busy", "idle")]
    return sorted((group for group in groups if group.ns), key=lambda group: -group.ns)


def _group(device: model.DeviceReport, name: str) -> Node:
    families: dict[str, list[model.Entry]] = {}
    for entry in device.ledger:
        if within(entry.account, name):
            families.setdefault("/".join(entry.account.split("/")[:2]), []).append(entry)
    nodes = [_family(device, account, entries) for account, entries in families.items()]
    words = {"busy": "the device ran something", "idle": "the device ran nothing"}
    return _node(device, name, name, words[name], "group", sorted(nodes, key=lambda node: -node.ns))


def _family(device: model.DeviceReport, account: str, entries: list[model.Entry]) -> Node:
    if len(entries) == 1 and entries[0].account.count("/") == 1:
        return _leaf(device, entries[0], account.split("/", 1)[1])
    leaves = [_leaf(device, entry, entry.account.split("/", 2)[-1]) for entry in entries]
    return _node(device, account, account.split("/", 1)[1], meaning(account), "account", leaves)


def _leaf(device: model.DeviceReport, entry: model.Entry, name: str) -> Node:
    """An account, with the calls or kernels that weigh most in it, and the rest."""
    weights = [weight for weight in device.weights if weight.account == entry.account]
    children = [
        Node(
            name=kernel_name(weight.name),
            meaning="",
            ns=weight.ns,
            share=weight.ns / device.window_ns,
            kind="weight",
            account=entry.account,
            path=callers(weight.path, weight.name),
            count=weight.count,
        )
        for weight in weights
    ]
    rest = entry.ns - sum(child.ns for child in children)
    if children and rest > 0:
        children.append(Node("others", "", rest, rest / device.window_ns, "rest", entry.account))
    return Node(name, meaning(entry.account), entry.ns, entry.share, "account", entry.account, children=children)


def _node(device: model.DeviceReport, account: str, name: str, words: str, kind: str, children: list[Node]) -> Node:
    ns = sum(child.ns for child in children)
    return Node(name, words, ns, ns / max(device.window_ns, 1), kind, account, children=children)


def percent(share: float | None, digits: int = 1) -> str:
    """A share as a percentage; a dash where it is not known."""
    return "–" if share is None else f"{100 * share:.{digits}f} %"


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
    "kernel": kernel_name,
}
