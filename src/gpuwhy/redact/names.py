"""Private names → replacements, the same one for the same name, everywhere."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from gpuwhy.ledger.host import ADDRESS
from gpuwhy.redact.public import (
    FRAME,
    MODULE,
    is_public,
    is_public_kernel,
    is_public_module,
    public_part,
)
from gpuwhy.reports.words import kernel_name
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
"""Words that a report says itself, and that tell nobody anything: a private name that is just one of them is replaced
where it stands alone, not within sentences."""


@dataclass
class Names:
    """Replacements by kind, numbered in the order in which names are met, and the texts that hold them."""

    known: dict[tuple[str, str], str] = field(default_factory=dict)
    count: dict[str, int] = field(default_factory=dict)
    whole: dict[str, str] = field(default_factory=dict)
    """Private texts as they stand in reports → what stands there instead."""

    def of(self, kind: str, name: str, suffix: str = "") -> str:
        """The replacement of one name, such as `file-3.py`."""
        if (kind, name) not in self.known:
            self.count[kind] = self.count.get(kind, 0) + 1
            self.known[kind, name] = f"{kind}-{self.count[kind]}{suffix}"
            self.whole.setdefault(name, self.known[kind, name])
        return self.known[kind, name]

    def path(self, path: str) -> str:
        """A file."""
        public = public_part(path)
        if public is not None:
            return public
        ending = re.search(r"(\.pt\.trace)?(\.json|\.py|\.sqlite|\.pt|\.zip)?(\.gz)?$", path.rsplit("/", 1)[-1])
        told = self.of("file", path, ending[0] if ending else "")
        base = re.split(r"[/\\]", path)[-1]
        if base:
            self.whole.setdefault(base, told)
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
        return kernel_name(name) if is_public_kernel(name) else self.of("kernel", name)


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
        if told != name:
            for form in (name, ADDRESS.sub("", name), kernel_name(name)):
                names.whole[form] = told
    return replaced


def replaced_in(text: str, names: Names, order: list[str]) -> str:
    """A text with all private names replaced; `order` are those to look for, the longest first."""
    if text in names.whole:
        return names.whole[text]
    for name in order:
        if name in text:
            told = names.whole[name].replace("\\", r"\\")
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", told, text)
    return text


def in_sentences(names: Names) -> list[str]:
    """The private texts to look for within others, the longest first."""
    return sorted(
        (name for name in names.whole if name and not EVERYDAY.fullmatch(name.lower())), key=lambda name: -len(name)
    )
