"""What was explained → the same without private names, before any report is written: all formats read it.

Replaced are paths and files, the program's own functions, classes, modules and annotations, operators and kernels that
no public library is known for, the command, the folder, host and user. Figures, accounts, public names and the device
stay.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gpuwhy.explained import Explained
from gpuwhy.ledger.accounts import Accounts, within
from gpuwhy.ledger.host import ROLES
from gpuwhy.redact.names import Names, in_field, in_sentence, longest_first, names_of, noted
from gpuwhy.reports import model
from gpuwhy.reports.build import Parts
from gpuwhy.reports.run_model import RunInfo
from gpuwhy.timeline import CallKind

GONE = "(redacted)"
PYTHON = re.compile(r"python[\d.]*")
PATH = re.compile(r"(?<![\w:])(?:~|\.{1,2}|[A-Za-z]:)?(?:[\\/][\w.+@=-]+){2,}")
"""Paths that no other place has told of: they stand in what the system or the program said."""
FRAMES = "idle/outside_operators/"
# fmt: off
KEPT = frozenset((
    "gpuwhy", "format", "era", "how", "level", "check", "what", "withholds", "cause", "explains", "id", "mends",
    "bound", "precision", "clock", "steps_by", "ended", "copy", "dims", "types", "torch", "unit", "changes",
    "command", "notes", "problems", "reason", "devices", "uuid", "profiles", "nothing",
))
# fmt: on
"""Fields whose words are gpuwhy's own, or were seen to already."""
ACCOUNTS = ("account", "accounts")
NAMES = ("name", "call", "path", "function")
"""Fields that hold one name, or several of them."""
PLACES = ("files", "folder", "label")
"""Fields that hold a path, however plain a word it is."""
T = TypeVar("T")


def redacted(explained: Explained, names: Names | None = None) -> Explained:
    """The same without private names; reports that share `names` have one replacement for one name."""
    names = names if names is not None else Names()
    for word, kind in _who():
        names.of(kind, word)
    for path in _paths(explained):
        names.path(path)
    for kind, word in _programs(explained):
        names.of(kind, word)
    if explained.parts is None:
        _saved(explained.report, names)
    parts = _parts(explained.parts, names) if explained.parts is not None else None
    report = explained.report
    if report.run is not None:
        report = msgspec.structs.replace(report, run=_run(report.run, names))
    return Explained(_texts(report, names), parts, explained.watched, redacted=True)


def _who() -> Iterable[tuple[str, str]]:
    """This host and user."""
    with suppress(OSError, KeyError, ImportError):
        yield getpass.getuser(), "user"
    with suppress(OSError):
        yield socket.gethostname(), "host"
    yield str(Path.home()), "home"


def _paths(explained: Explained) -> Iterable[str]:
    """Files and folders that the report names."""
    report = explained.report
    yield from report.source.files
    if report.run is not None:
        yield report.run.folder
        yield os.path.abspath(report.run.folder)
        for process in report.run.processes:
            yield from process.profiles
        yield from (word for word in report.run.command if _is_path(word))


def _programs(explained: Explained) -> Iterable[tuple[str, str]]:
    """Processes and threads by the names that they gave themselves."""
    samples = explained.watched.samples if explained.watched is not None else ()
    for sample in samples:
        for process in sample.processes:
            if process.command and not PYTHON.fullmatch(process.command):
                yield "process", process.command
            for thread in process.threads or ():
                if thread.name and thread.name != process.command:
                    yield "thread", thread.name
    for seen in explained.watched.seen if explained.watched is not None else ():
        yield from (("thread", str(note["name"])) for note in seen.journal.noted("thread") if note.get("name"))


def _parts(parts: Parts, names: Names) -> Parts:
    """The stages that pictures and tracks are drawn from."""
    timeline = parts.basis.timeline
    told = names_of(timeline, names)
    sources = tuple(replace(one, file=names.path(one.file), metadata=_clock(one.metadata)) for one in timeline.sources)
    hidden = replace(timeline, names=told, sources=sources)
    accounts = Accounts([_account(name, names) for name in parts.basis.accounts.names])
    basis = replace(parts.basis, timeline=hidden, accounts=accounts)
    ledgers = [
        replace(ledger, accounts=[_account(name, names) for name in ledger.accounts]) for ledger in parts.ledgers
    ]
    rooflines = [
        replace(roofline, view=replace(roofline.view, timeline=hidden, accounts=accounts.names))
        for roofline in parts.rooflines
    ]
    return Parts(basis, ledgers, rooflines, parts.checks, parts.outlooks)


def _clock(metadata: dict[str, Any]) -> dict[str, Any]:
    """Of what a file says of itself, only on which clock its times are."""
    return {key: value for key, value in metadata.items() if key == "baseTimeNanoseconds"}


def _saved(report: model.Report, names: Names) -> None:
    """The names in a report of which nothing else is at hand."""
    for device in report.devices:
        for weight in device.weights:
            if within(weight.account, "busy"):
                noted(weight.name, names.kernel(weight.name), names)
            calls = [*weight.path, *([] if within(weight.account, "busy") else [weight.name])]
            for call in calls:
                noted(call, names.guess(call), names)
        for wait in device.after_sync:
            for call in (wait.call, *wait.path):
                noted(call, names.guess(call), names)
        for operator in device.roofline.operators if device.roofline is not None else ():
            noted(operator.name, names.call(operator.name, CallKind.OPERATOR), names)
        for entry in device.ledger:
            frame = entry.account.removeprefix(FRAMES)
            if frame != entry.account and frame not in ROLES:
                name = frame.removeprefix("annotation: ")
                noted(name, names.guess(name), names)


def _account(name: str, names: Names) -> str:
    """An account; those outside operators end in a frame or an annotation."""
    rest = name.removeprefix(FRAMES)
    return name if rest == name else FRAMES + in_field(rest, names)


def _run(run: RunInfo, names: Names) -> RunInfo:
    """The command and what the program said of itself: its words are anybody's."""
    command = [_word(word, names) for word in run.command]
    compiled = [
        msgspec.structs.replace(one, function=names.of("function", one.function), reason=GONE if one.reason else None)
        for one in run.compilations
    ]
    processes = [msgspec.structs.replace(one, notes=[GONE for _ in one.notes]) for one in run.processes]
    return msgspec.structs.replace(
        run, command=command, compilations=compiled, processes=processes, problems=[GONE for _ in run.problems]
    )


def _word(word: str, names: Names) -> str:
    base = word.rsplit("/", 1)[-1]
    if PYTHON.fullmatch(base) or base in ("torchrun", "accelerate", "-m", "-c", "--"):
        names.whole.setdefault(word, base)
        return base
    return names.path(word) if _is_path(word) else names.of("argument", word)


def _is_path(word: str) -> bool:
    looks = "/" in word or re.search(r"\.\w{1,5}$", word) is not None
    return looks and not PYTHON.fullmatch(word.rsplit("/", 1)[-1])


def _texts(value: T, names: Names) -> T:
    """A struct with its texts looked through."""
    order = longest_first(names)

    def look(text: str, field: str) -> str:
        if field in KEPT:
            return text
        if field in ACCOUNTS:
            return _account(text, names)
        if field in NAMES or (field in PLACES and text in names.whole):
            return in_field(text, names)
        return PATH.sub(GONE, in_sentence(text, names, order))

    looked: T = _walked(value, look, "")
    return looked


def _walked(value: Any, look: Callable[[str, str], str], field: str) -> Any:
    """The same value with `look` applied to its texts, which is told the field that they are in."""
    if isinstance(value, str):
        return look(value, field)
    if isinstance(value, msgspec.Struct):
        fields = {name: _walked(getattr(value, name), look, name) for name in value.__struct_fields__}
        return type(value)(**fields)
    if isinstance(value, list):
        return [_walked(item, look, field) for item in value]
    if isinstance(value, dict):
        return {key: _walked(item, look, field) for key, item in value.items()}
    return value
