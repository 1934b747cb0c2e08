"""Private names → replacements, the same one for the same name, everywhere."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from gpuwhy.ledger.host import ADDRESS
from gpuwhy.redact.public import (
    FRAME,
    MODULE,
    STANDARD,
    is_public,
    is_public_kernel,
    is_public_module,
    public_part,
)
from gpuwhy.reports.words import kernel_name, shorten
from gpuwhy.timeline import CallKind, Timeline

EVERYDAY = re.compile(
    r"""
    a | after | all | and | annotation | at | backward | batch | before | busy | call | code | compile | copy
    | cpu | cuda | data | decode | device | epoch | eval | evaluate | for | forward | from | function | gpu
    | host | idle | in | infer | inference | init | input | is | it | iteration | kernel | launch | load
    | loader | loop | loss | main | memory | model | ms | none | not | of | on | one | optimizer | or | other
    | prefill | profile | python | rank | read | run | sample | samples | save | step | steps | stream | sync
    | test | text | that | the | thread | time | to | train | training | update | valid | validate | validation
    | wait | warmup | with | without | work | world | write | zero
    """,
    re.VERBOSE,
)
"""Words that a report says itself, and that tell nobody anything."""
SHORTEST = 3
"""Characters of what is looked for within sentences."""
SURE = ("host", "user", "home", "thread", "process")
"""Kinds of names that are looked for there even if they are plain words."""
SHORTENED = 80
"""To which a verdict cuts the frame that it names."""


@dataclass
class Names:
    """Replacements by kind, numbered in the order in which names are met, and the texts that hold them."""

    known: dict[tuple[str, str], str] = field(default_factory=dict)
    count: dict[str, int] = field(default_factory=dict)
    whole: dict[str, str] = field(default_factory=dict)
    """Private texts as a field of a report → what stands there instead."""
    inside: dict[str, str] = field(default_factory=dict)
    """The same of texts that may stand within sentences."""

    def of(self, kind: str, name: str, suffix: str = "") -> str:
        """The replacement of one name, such as `file-3.py`."""
        if (kind, name) not in self.known:
            self.count[kind] = self.count.get(kind, 0) + 1
            self.known[kind, name] = f"{kind}-{self.count[kind]}{suffix}"
            if kind != "argument":  # of a command: a number, a word, anything
                self.note(name, self.known[kind, name], kind in SURE)
        return self.known[kind, name]

    def note(self, text: str, told: str, sure: bool = False) -> None:
        """What stands for a text; within sentences if it is `sure` to be private, or no plain word or number."""
        self.whole.setdefault(text, told)
        plain = re.fullmatch(r"[a-z]+|[\W\d_]*", text) is not None or EVERYDAY.fullmatch(text.lower()) is not None
        if len(text) >= SHORTEST and (sure or not plain):
            self.inside.setdefault(text, told)

    def path(self, path: str) -> str:
        """A file."""
        public = public_part(path)
        if public is not None:
            return public
        ending = re.search(r"(\.pt\.trace)?(\.json|\.py|\.sqlite|\.pt|\.zip)?(\.gz)?$", path.rsplit("/", 1)[-1])
        told = self.of("file", path, ending[0] if ending else "")
        base = re.split(r"[/\\]", path)[-1]
        if base and base not in STANDARD:
            self.note(base, told)
        return told

    def call(self, name: str, kind: CallKind) -> str:
        """A host call."""
        if kind == CallKind.PYTHON and (frame := FRAME.fullmatch(name)) is not None:
            return self._frame(frame["path"], frame["line"], frame["function"])
        if kind == CallKind.PYTHON and (module := MODULE.fullmatch(name)) is not None:
            if is_public_module(module["type"]):
                return name
            return f"nn.Module: {self.of('Module', module['type'])}{module['number'] or ''}"
        if not name or is_public(name, kind):
            return name
        return self.of({CallKind.ANNOTATION: "annotation", CallKind.PYTHON: "frame"}.get(kind, "operator"), name)

    def _frame(self, path: str, line: str, function: str) -> str:
        told = self.path(path)
        if public_part(path) is not None:
            return f"{told}({line}): {function}"
        named = function if function.startswith("<") and function.endswith(">") else self.of("function", function)
        return f"{told}({line}): {named}"

    def kernel(self, name: str) -> str:
        """A device operation, without template arguments, which may name anybody's types."""
        skeleton = re.split(r"[<(‹]", kernel_name(name), maxsplit=1)[0].strip()
        return skeleton if is_public_kernel(name) and skeleton else self.of("kernel", kernel_name(name))

    def guess(self, name: str) -> str:
        """A call of which a saved report does not say what kind it is."""
        if FRAME.fullmatch(name) or MODULE.fullmatch(name):
            return self.call(name, CallKind.PYTHON)
        return name if any(is_public(name, kind) for kind in CallKind) else self.of("call", name)


def names_of(timeline: Timeline, names: Names) -> list[str]:
    """What stands for each of the timeline's names; what reports make of the private ones is noted in `names.whole`."""
    kinds: dict[int, set[int]] = {}
    for kind in CallKind:
        for code in np.unique(timeline.calls.name[timeline.calls.kind == kind]).tolist():
            kinds.setdefault(code, set()).add(int(kind))
    of_ops = set(np.unique(timeline.ops.name).tolist())
    replaced = []
    for code, name in enumerate(timeline.names):
        told = name
        for number in sorted(kinds.get(code, ())):
            now = names.call(name, CallKind(number))
            told = told if now == name else now
        if code in of_ops and code not in kinds:
            told = names.kernel(name)
        replaced.append(told)
        noted(name, told, names)
    return replaced


def noted(name: str, told: str, names: Names) -> None:
    """What reports make of a private name: as it is, without an address, as a kernel's, or cut."""
    if told == name:
        return
    bare = ADDRESS.sub("", name)
    for form in dict.fromkeys((name, bare, kernel_name(name), shorten(bare, SHORTENED))):
        names.note(form, told)
        names.note(f"annotation: {form}", f"annotation: {told}")
    names.note(shorten(f"annotation: {bare}", SHORTENED), f"annotation: {told}")  # cut with what stands before it


def in_field(text: str, names: Names) -> str:
    """A field that holds one name."""
    return names.whole.get(text, text)


def in_sentence(text: str, names: Names, order: list[str]) -> str:
    """A text with all private names in it replaced; `order` are those to look for, the longest first."""
    here = [name for name in order if name in text]
    if not here:
        return text
    pattern = "|".join(map(re.escape, here))
    return re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", lambda found: names.inside[found[0]], text)


def longest_first(names: Names) -> list[str]:
    """The private texts to look for within sentences."""
    return sorted(names.inside, key=lambda name: -len(name))
