"""A user's own question: `input,sync=0.5,precision=bf16` → changes, replayed together.

A name stands for mends, as the rules offer them however little they would bring (the mends' own names do, too). A
number behind it is the part that is left: `sync=0.5` removes every second blocking call, `checkpoint=0.1` writes every
tenth checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpuwhy.errors import GpuwhyError
from gpuwhy.findings import findings
from gpuwhy.findings.base import Finding, Look, Mend
from gpuwhy.findings.input import TAKING
from gpuwhy.findings.products import TYPES, in_precision
from gpuwhy.roofline.waste import Waste
from gpuwhy.whatif.batch import larger_batch
from gpuwhy.whatif.changes import Change, composed, lasting, paced, without_host_time
from gpuwhy.whatif.gains import Gain, gain, unpaced_steps
from gpuwhy.whatif.graph import Graph
from gpuwhy.whatif.loader import WORKERS
from gpuwhy.whatif.replayed import Replayed
from gpuwhy.whatif.setting import Setting

NAMES = {
    "input": ("loader_workers", "more_workers"),
    "copies": ("pinned_prefetch",),
    "pinned": ("pinned",),
    "outputs": ("keep_on_device",),
    "sync": ("no_item", "no_synchronize", "fixed_sizes"),
    "allocator": ("keep_memory",),
    "gc": ("gc_off_loop",),
    "recompile": ("no_recompile", "warm_up"),
    "checkpoint": ("checkpoint_rarely",),
    "host_compute": ("compute_elsewhere",),
    "outside": ("out_of_loop",),
    "optimizer": ("fused_optimizer",),
    "compile": ("compile",),
    "graphs": ("cuda_graphs",),
    "casts": ("one_type",),
    "attention": ("fused_attention",),
    "shape": ("shape",),
    "layout": ("channels_last", "no_copies"),
    "recompute": ("no_recompute",),
    "communication": ("overlap_communication",),
    "straggler": ("keep_up",),
}
"""Mends by the name in a question, in the order in which they are made."""
WITH_VALUE = {
    "precision": "bf16, fp16, tf32, fp32, fp64 or fp8: products in that precision",
    "workers": "a number: so many workers make the batches; times as many, where there are workers",
    "batch": "a number: so many times as large",
    "network": "a number: collectives take so many times as long (0.5: bandwidth is doubled)",
    "host": "a number: the host takes so many times as long (0.5: it is twice as fast)",
    "device": "a number: the device takes so many times as long",
}
MOST, LEAST = 1e6, 1e-6


@dataclass(frozen=True)
class Question:
    """One part of a question; `value` is None where none was given."""

    name: str
    value: str | None


@dataclass(frozen=True)
class Answer:
    """What the changes bring together; `nothing` are parts of the question that this profile has nothing of."""

    questions: list[Question]
    gain: Gain
    samples: float
    nothing: list[str]


def parse(text: str) -> list[Question]:
    """The parts of a question. Raises GpuwhyError where it is none."""
    found, seen = list[Question](), set[str]()
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        known = name in NAMES or name in WITH_VALUE or any(name in ids for ids in NAMES.values())
        if not known or (equals and not value) or (name in WITH_VALUE and not value):
            more = f" ({WITH_VALUE[name]})" if name in WITH_VALUE else ""
            raise GpuwhyError(
                f"--what-if {part.strip() or text}: not a change{more}",
                hint=f"one or several of {', '.join([*NAMES, *(f'{one}=…' for one in WITH_VALUE)])}",
            )
        value = value.lower()
        if name == "precision" and value not in TYPES:
            raise GpuwhyError(f"--what-if {part.strip()}: a precision is one of {', '.join(TYPES)}")
        if value and name != "precision":
            _number(name, value)
        what = _what(name)
        if what & seen:
            raise GpuwhyError(f"--what-if {text}: {name} is asked for twice", hint="each change once")
        seen |= what
        found.append(Question(name, value or None))
    return found


def _what(name: str) -> set[str]:
    """What a name stands for: its mends, and itself if it takes a value."""
    loading = NAMES["input"] if name == "workers" else ()
    return {*NAMES.get(name, (name,)), *loading} if name not in WITH_VALUE else {name, *loading}


def _in_turn(questions: Sequence[Question]) -> list[Question]:
    """In the order in which they are made, whatever they were asked in: what is compiled can be launched as a graph."""
    groups = [*NAMES, *WITH_VALUE]
    group_of = {id_: name for name, ids in NAMES.items() for id_ in (name, *ids)}
    return sorted(questions, key=lambda one: groups.index(group_of.get(one.name, one.name)))


def _number(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    least, most = (LEAST, MOST) if name in WITH_VALUE else (0.0, 1.0)
    if not least <= number <= most:
        what = WITH_VALUE.get(name, "a number: the part of it that is left")
        raise GpuwhyError(f"--what-if {name}={value}: not {what}", hint=f"from {least:g} to {most:g}")
    return number


def answer(found: Replayed, wastes: Sequence[Waste], questions: Sequence[Question]) -> Answer | None:
    """Replay all changes of a question together; None where gains are withheld."""
    setting = found.setting
    if setting is None or found.bases is None or found.device_ns is None:
        return None
    recorded, without = unpaced_steps(setting.graph, found.bases)
    look = Look(setting, wastes, recorded, without, found.device_ns, least=0.0)
    mends = _mends(findings(look))
    changes: list[tuple[Change, ...]] = []
    nothing, samples = [], 1.0
    for question in _in_turn(questions):
        if question.name in WITH_VALUE:
            special = _special(look, question)
            changes += [special] if special is not None else []
            nothing += [question.name] if special is None else []
            samples *= float(question.value or 1) if question.name == "batch" else 1.0
            continue
        some = [mend for id_ in NAMES.get(question.name, (question.name,)) for mend in mends.get(id_, ())]
        left = float(question.value) if question.value is not None else 0.0
        changes += [tuple(partly(one, left) for one in mend.variants) for mend in some]
        nothing += [question.name] if not some else []
    ends = [composed([one[which % len(one)] for one in changes]) for which in range(3)]
    return Answer(list(questions), gain(found.bases, ends, samples), samples, nothing)


def _mends(found: Sequence[Finding]) -> dict[str, list[Mend]]:
    """The mends by name. Of one cause there can be several (two wastes); what a later cause offers by the same name is
    the same mend, seen from another side.
    """
    mends: dict[str, list[Mend]] = {}
    causes: dict[str, str] = {}
    for finding in found:
        for mend in finding.mends:
            if causes.setdefault(mend.id, finding.cause) == finding.cause:
                mends.setdefault(mend.id, []).append(mend)
    return mends


def _special(look: Look, question: Question) -> tuple[Change, ...] | None:
    """Changes that need a value; None where this profile holds nothing for one."""
    setting, value = look.setting, question.value or ""
    if question.name == "precision":
        return in_precision(look, value)
    number = _number(question.name, value)
    everything = np.ones(len(setting.timeline.ops), bool)
    make: dict[str, Callable[[], Change | None]] = {
        "workers": lambda: _workers(setting, number),
        "batch": lambda: larger_batch(setting)(number),
        "network": lambda: _network(setting, number),
        "host": lambda: without_host_time(setting.own, number),
        "device": lambda: lasting(everything, number),
    }
    change = make[question.name]()
    return None if change is None else (change,)


def _workers(setting: Setting, number: float) -> Change | None:
    """The loader's work on so many workers, which then set the pace; where there are some, so many times as many."""
    if setting.graph.pace_ns:
        pace = setting.graph.pace_ns / number
        return lambda graph: replace(graph, pace_ns=pace)
    if setting.waited_ns("input"):
        return without_host_time(setting.producing, 1 / number)
    loading = setting.slices_of("input") & ~setting.slices_in(setting.pieces(WORKERS))
    own = setting.host_ns(loading)
    return composed([without_host_time(loading, TAKING[0]), paced(own / number)]) if own else None


def _network(setting: Setting, number: float) -> Change | None:
    """Collectives that take so many times as long."""
    ops = setting.busy_anywhere("communication")
    return lasting(ops, number) if ops.any() else None


def partly(change: Change, left: float) -> Change:
    """A change of which a part is left undone: times in between, and of the waits that are cut every so many."""
    if not left:
        return change

    def part(graph: Graph) -> Graph:
        new = change(graph)
        cut = np.flatnonzero(new.cut & ~graph.cut)
        kept = cut[np.diff(np.floor(np.arange(len(cut) + 1) * left)) > 0]
        cuts = new.cut.copy()
        cuts[kept] = False
        vanished = new.gone & ~graph.gone
        return replace(
            new,
            host=replace(new.host, factor=left * graph.host.factor + (1 - left) * new.host.factor),
            duration=np.where(vanished, left * graph.duration, left * graph.duration + (1 - left) * new.duration),
            gone=graph.gone,
            cut=cuts,
            edges=replace(new.edges, lag=np.rint(left * graph.edges.lag + (1 - left) * new.edges.lag).astype(np.int64)),
            pace_ns=max(left * graph.pace_ns, new.pace_ns) if new.pace_ns < graph.pace_ns else new.pace_ns,
        )

    return part
