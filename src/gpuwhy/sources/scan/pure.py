"""The back end without a compiler: the same scanner as scan.c, on the standard library.

Whole events go through json's C decoder. What it refuses, and the few events whose raw text matters (with
escapes, deep nesting, a composite value in a CODE column), go through grammar.py and number.py, which mirror
grammar.h and number.h rule by rule. The input is held as Latin-1 text: one character a byte, of any value.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gpuwhy.sources.columns import TABLES, Kind, Table
from gpuwhy.sources.scan.events import (
    HEADER_LIMIT,
    LIMIT,
    MAX_DEPTH,
    MAX_SKIPPED,
    MAX_SKIPPED_NAME,
    PROGRESS_STEP,
    Columns,
    Events,
    Reason,
    State,
    Where,
    conclude,
)
from gpuwhy.sources.scan.grammar import (
    Damage,
    NeedInput,
    Slots,
    blanks,
    key_and_value,
    latin,
    separators,
    skip_value,
    unescaped,
    walk_event,
)
from gpuwhy.sources.scan.number import INT_MOST, integer, nanoseconds
from gpuwhy.timeline import MISSING

_NO_KEY = {bool, bytes, dict, list}  # not looked up by value: True would find the code of 1
# Numbers with a point or an exponent, NaN and its kin come out as bytes: no JSON string does.
_decode = json.JSONDecoder(parse_float=str.encode, parse_constant=str.encode, strict=False).raw_decode


def scan(
    chunks: Iterable[bytes],
    tables: Sequence[Table] = TABLES,
    *,
    on_progress: Callable[[int], None] | None = None,
    limit: int = LIMIT,
) -> Events:
    """See `gpuwhy.sources.scan.scan`."""
    reader = _Reader(tables, limit)
    pieces: list[str] = []  # not yet joined to the reader's buffer
    waiting = told = 0
    for chunk in chunks:
        for start in range(0, len(chunk), PROGRESS_STEP):
            pieces.append(str(chunk[start : start + PROGRESS_STEP], "latin-1"))
            waiting += len(pieces[-1])
            reader.state.size += len(pieces[-1])
            if waiting >= reader.wanted:
                if not reader.read("".join(pieces)):
                    return reader.result()
                pieces, waiting = [], 0
            if on_progress is not None and reader.state.size - told >= PROGRESS_STEP:
                told = reader.state.size
                on_progress(told)
    if reader.read("".join(pieces), is_last=True):
        reader.end()
    return reader.result()


class _Reader:
    """The top level: units from a growing buffer, and the columns that they fill."""

    def __init__(self, tables: Sequence[Table], limit: int) -> None:
        self.state = State()
        self.wanted = 1  # more input to gather before the unfinished unit is tried again
        self._limit = limit
        self._text = ""
        self._start = 0  # of the unit at hand in the buffer
        self._offset = 0  # of the buffer in the input
        self._codes: dict[str, int] = {}
        self._sinks = [_Sink(table, self._codes) for table in tables]
        self._routes: dict[tuple[str | None, str | None], _Sink] = {}
        for sink in self._sinks:
            for cat in sink.table.cats:
                for phase in sink.table.phases:
                    self._routes.setdefault((latin(cat), latin(phase)), sink)
        self._skipped: dict[str, int] = {}

    def read(self, more: str, is_last: bool = False) -> bool:
        """Take more input and read on; False once the reading has stopped at damage."""
        self._text = text = self._text + more
        state, end, at = self.state, len(self._text), 0
        if state.where == Where.START and self._offset == 0:
            if text.startswith("\xef\xbb\xbf"):
                at = 3
            elif "\xef\xbb\xbf".startswith(text) and not is_last:
                return True
        try:
            while True:
                self._start = at = blanks(text, at)
                state.inside = False
                if at == end:
                    break
                at = self._unit(text, at)
                if at - self._start > self._limit:
                    raise Damage(Reason.TOO_LONG, self._start)
        except NeedInput:
            if end - self._start > self._limit:
                return self._stop(Reason.TOO_LONG, self._start)
        except Damage as damage:
            if damage.at - self._start > self._limit:
                return self._stop(Reason.TOO_LONG, self._start)
            return self._stop(damage.reason, damage.at)
        unread = end - self._start
        self._text = text[self._start :]
        self._offset += self._start
        self.wanted = max(1, min(max(unread, 1 << 20), self._limit + 1 - unread))
        return True

    def end(self) -> None:
        """The input is complete."""
        state = self.state
        if state.where == Where.AFTER_ALL:
            return
        if state.where == Where.EVENTS and state.is_list and not state.inside:
            return
        self._stop(Reason.ENDS, len(self._text))

    def _stop(self, reason: Reason, at: int) -> bool:
        self.state.reason = reason
        self.state.position = self._offset + at
        self.state.byte = ord(self._text[at]) if at < len(self._text) else 0
        return False

    def _unit(self, text: str, at: int) -> int:
        """One step of the top level; the same steps as `read_unit` in scan.c."""
        state, char = self.state, text[at]
        match state.where:
            case Where.EVENTS:
                return self._events(text, at)
            case Where.START if char in "{[":
                state.is_list = char == "["
                state.where = Where.EVENTS if state.is_list else Where.FIRST_KEY
            case Where.FIRST_KEY if char == "}":
                state.where = Where.AFTER_ALL
            case Where.FIRST_KEY | Where.NEXT_KEY:
                return self._member(text, at)
            case Where.AFTER_VALUE if char in ",}":
                state.where = Where.NEXT_KEY if char == "," else Where.AFTER_ALL
            case _:
                raise Damage(Reason.UNEXPECTED, at)
        return at + 1

    def _member(self, text: str, start: int) -> int:
        state = self.state
        state.inside = True
        key, at = key_and_value(text, start)
        opens_events = text[at] == "[" and unescaped(key) == "traceEvents"
        end = at + 1 if opens_events else skip_value(text, at, 0)
        if end - start > self._limit:
            return end
        if opens_events:
            state.found = True
            state.where = Where.EVENTS
        else:
            state.where = Where.AFTER_VALUE
            kept = end - at <= HEADER_LIMIT
            state.add_header(key.encode("latin-1"), text[at:end].encode("latin-1") if kept else None)
        return end

    def _events(self, text: str, at: int) -> int:
        """All events up to the end of the buffer, or one other thing in the list."""
        state, limit, end_of_text = self.state, self._limit, len(text)
        while True:
            at = separators(text, at)
            self._start = at
            state.inside = at < end_of_text
            if at == end_of_text:
                return at
            if text[at] != "{":
                break
            state.found = True
            try:
                event, end = _decode(text, at)
            except (ValueError, RecursionError):
                event, end = None, at
            if end - at > limit:
                raise Damage(Reason.TOO_LONG, at)
            if event is None or not self._is_plain(text, at, end) or not self._add_plain(event):
                own, args, end = walk_event(text, at)
                if end - at > limit:
                    raise Damage(Reason.TOO_LONG, at)
                self._add(own, args)
            state.count += 1
            at = end
        if text[at] == "]":
            state.where = Where.AFTER_ALL if state.is_list else Where.AFTER_VALUE
            return at + 1
        end = skip_value(text, at, 0)
        if end - at <= limit:
            state.malformed += 1
        return end

    @staticmethod
    def _is_plain(text: str, at: int, end: int) -> bool:
        """Whether the values alone tell the raw text: no escapes, no -0, and surely not too deep."""
        return (
            text.find("\\", at, end) < 0
            and text.find("-0", at, end) < 0
            and (end - at <= MAX_DEPTH or text.count("[", at, end) + text.count("{", at, end) <= MAX_DEPTH)
        )

    def _add_plain(self, event: dict[str, Any]) -> bool:
        """Add an event as json decoded it; False where only its raw text will do."""
        cat, phase = event.get("cat", ""), event.get("ph", "")
        if type(cat) is not str or type(phase) is not str:
            return False
        sink = self._routes.get((cat, phase))
        if sink is not None:
            return sink.add_plain(event)
        self._skip(cat)
        return True

    def _add(self, own: Slots, args: Slots) -> None:
        cat, phase = own.get("cat", (0, "null"))[1], own.get("ph", (0, "null"))[1]
        sink = self._routes.get((_name(cat), _name(phase)))
        if sink is None:
            self._skip(cat[1:-1] if cat[0] == '"' else "" if cat == "null" else cat)
        else:
            sink.add(own, args)

    def _skip(self, cat: str) -> None:
        if cat not in self._skipped:
            named = len(self._skipped) - ("" in self._skipped)
            if len(cat) > MAX_SKIPPED_NAME or named >= MAX_SKIPPED:
                cat = ""
        self._skipped[cat] = self._skipped.get(cat, 0) + 1

    def result(self) -> Events:
        """Everything that was read."""
        texts = [text.encode("latin-1") for text in self._codes]
        skipped = [(cat.encode("latin-1"), count) for cat, count in self._skipped.items()]
        columns = {sink.table.name: sink.columns() for sink in self._sinks}
        return conclude(self.state, columns, texts, skipped)


class _Sink:
    """The columns of one table."""

    def __init__(self, table: Table, codes: dict[str, int]) -> None:
        self.table = table
        self._codes = codes
        self._known: dict[Any, int] = {}  # the codes of decoded strings and integers
        self._arrays = [array("i" if column.kind == Kind.CODE else "q") for column in table.columns]
        self._plan = [
            (tuple(map(latin, column.keys)), column.kind, column.in_args, values.append)
            for column, values in zip(table.columns, self._arrays, strict=True)
        ]

    def add_plain(self, event: dict[str, Any]) -> bool:  # noqa: PLR0912 - one loop, for speed
        """Add one row from decoded values; False, and nothing added, where the raw text is needed."""
        args = event.get("args")
        if type(args) is not dict:
            args = {}
        row: list[int] = []
        for keys, kind, in_args, _ in self._plan:
            source = args if in_args else event
            if len(keys) == 1:
                value = source.get(keys[0])
            else:
                present = [key for key in keys if key in source]
                if len(present) > 1:
                    return False  # a dict does not tell which of them came last
                value = source[present[0]] if present else None
            of_type = type(value)
            if kind == Kind.CODE:
                code = None if of_type in _NO_KEY else self._known.get(value)
                if code is None:
                    code = self._new_code(value)
                    if code is None:
                        return False
                row.append(code)
            elif value is None:
                row.append(MISSING)
            elif kind == Kind.NS:
                if of_type is bytes:
                    whole, _, fraction = value.partition(b".")
                    if len(fraction) == 3 and fraction.isdigit() and len(whole) < 16:
                        row.append(int(whole + fraction))
                        continue
                row.append(nanoseconds(_number_text(value)))
            elif of_type is int and -INT_MOST <= value <= INT_MOST:
                row.append(value)
            else:
                row.append(integer(_number_text(value)))
        for (_, _, _, append), number in zip(self._plan, row, strict=True):
            append(number)
        return True

    def _new_code(self, value: Any) -> int | None:
        """The code of a decoded value; None where its raw text is not known."""
        if value is None:
            return -1
        if type(value) in (dict, list):
            return None
        token = f'"{value}"' if type(value) is str else _number_text(value)
        code = self._codes.setdefault(token, len(self._codes))
        if type(value) in (str, int):
            self._known[value] = code
        return code

    def add(self, own: Slots, args: Slots) -> None:
        """Add one row from raw texts."""
        for keys, kind, in_args, append in self._plan:
            source = args if in_args else own
            token = max((source[key] for key in keys if key in source), default=(0, "null"))[1]
            if kind == Kind.CODE:
                append(-1 if token == "null" else self._codes.setdefault(token, len(self._codes)))
            else:
                inside = token[1:-1] if token[0] == '"' else token
                append(nanoseconds(inside) if kind == Kind.NS else integer(inside))

    def columns(self) -> Columns:
        """The columns as arrays, without a copy."""
        return {
            column.name: np.frombuffer(values, np.int32 if column.kind == Kind.CODE else np.int64)
            for column, values in zip(self.table.columns, self._arrays, strict=True)
        }


def _number_text(value: Any) -> str:
    """The text of a value that may be a number."""
    if type(value) is bool:
        return "true" if value else "false"
    return value.decode("latin-1") if type(value) is bytes else str(value)


def _name(token: str) -> str | None:
    """A raw cat or ph as it is routed by."""
    return "" if token == "null" else unescaped(token[1:-1]) if token[0] == '"' else None
