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
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gpuwhy.explained import Explained
from gpuwhy.ledger.accounts import Accounts
from gpuwhy.redact.names import Names, in_sentences, names_of, replaced_in
from gpuwhy.reports.build import Parts
from gpuwhy.reports.run_model import RunInfo

GONE = "(redacted)"
PYTHON = re.compile(r"python[\d.]*")
PATH = re.compile(r"(?<![\w:])(?:~|\.{1,2}|[A-Za-z]:)?(?:[\\/][\w.+@=-]+){2,}")
"""Paths that no other place has told of: they stand in what the system or the program said."""
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
    sources = tuple(replace(one, file=names.path(one.file), metadata={}) for one in timeline.sources)
    hidden = replace(timeline, names=told, sources=sources)
    order = in_sentences(names)
    accounts = Accounts()
    for name in parts.basis.accounts.names:
        accounts.names.append(_account(name, names, order))
    basis = replace(parts.basis, timeline=hidden, accounts=accounts)
    ledgers = [
        replace(ledger, accounts=[_account(name, names, order) for name in ledger.accounts]) for ledger in parts.ledgers
    ]
    rooflines = [
        replace(roofline, view=replace(roofline.view, timeline=hidden, accounts=accounts.names))
        for roofline in parts.rooflines
    ]
    return Parts(basis, ledgers, rooflines, parts.checks, parts.outlooks)


def _account(name: str, names: Names, order: list[str]) -> str:
    """An account; those outside operators end in a frame or an annotation."""
    group, _, rest = name.partition("idle/outside_operators/")
    if group or not rest or rest in ("main", "backward", "other"):
        return name
    label, _, marked = rest.partition("annotation: ")
    if not label and marked:
        return f"idle/outside_operators/annotation: {names.whole.get(marked, marked)}"
    return f"idle/outside_operators/{names.whole.get(rest, rest)}"


def _run(run: RunInfo, names: Names) -> RunInfo:
    """The command and what the program said of itself: its words are anybody's."""
    command = [_word(word, place, names) for place, word in enumerate(run.command)]
    compiled = [
        msgspec.structs.replace(one, function=names.of("function", one.function), reason=GONE if one.reason else None)
        for one in run.compilations
    ]
    processes = [msgspec.structs.replace(one, notes=[GONE for _ in one.notes]) for one in run.processes]
    return msgspec.structs.replace(
        run, command=command, compilations=compiled, processes=processes, problems=[GONE for _ in run.problems]
    )


def _word(word: str, place: int, names: Names) -> str:
    base = word.rsplit("/", 1)[-1]
    if PYTHON.fullmatch(base) or base in ("torchrun", "accelerate", "-m", "-c", "--"):
        names.whole.setdefault(word, base)
        return base
    return names.path(word) if _is_path(word) else names.of("argument", word)


def _is_path(word: str) -> bool:
    looks = "/" in word or re.search(r"\.\w{1,5}$", word) is not None
    return looks and not PYTHON.fullmatch(word.rsplit("/", 1)[-1])


def _texts(value: T, names: Names) -> T:
    """A struct with every text in it looked through."""
    order = in_sentences(names)

    def look(text: str) -> str:
        account = _account(text, names, order)
        return account if account != text else PATH.sub(GONE, replaced_in(text, names, order))

    looked: T = _walked(value, look)
    return looked


def _walked(value: Any, look: Any) -> Any:
    """The same value with `look` applied to its texts."""
    if isinstance(value, str):
        return look(value)
    if isinstance(value, msgspec.Struct):
        fields = {name: _walked(getattr(value, name), look) for name in value.__struct_fields__}
        return type(value)(**fields)
    if isinstance(value, list):
        return [_walked(item, look) for item in value]
    if isinstance(value, dict):
        return {look(key): _walked(item, look) for key, item in value.items()}
    return value
