"""The back end without a compiler: the same scanner as scan.c, on the standard library.

Whole events go through json's C decoder. What it refuses, and the few events whose raw text matters (with
escapes, deep nesting, a composite value in a CODE column), go through the grammar at the end of this file,
which mirrors scan.c rule by rule. The input is held as Latin-1 text: one character a byte, of any value.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gpuwhy.sources.columns import MISSING, TABLES, Kind, Table
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

_BLANKS = re.compile(r"[ \t\n\r]*")
_SEPARATORS = re.compile(r"[ \t\n\r,]*")
_BRACKETS = re.compile(r'["\[\]{}]')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_CUT_NUMBER = re.compile(
    r"(?:-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*|(?:\.[0-9]+)?[eE][-+]?[0-9]*)?)?)\Z"
)  # what a number that the end of the buffer cuts looks like
_WORD = re.compile(r"-?([A-Za-z]{0,9})")
_PARTS = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([-+]?[0-9]+))?")

_INT_MOST = 2**63 - 1
_NS_MOST = 2**62

_NO_KEY = {bool, bytes, dict, list}  # not looked up by value: True would find the code of 1
Slots = dict[str, tuple[int, str]]
"""Key to the place and raw text of its value."""


# Numbers with a point or an exponent, NaN and its kin come out as bytes: no JSON string does.
_decode = json.JSONDecoder(parse_float=str.encode, parse_constant=str.encode, strict=False).raw_decode


class _NeedInput(Exception):
    """The buffer ends inside the value."""


class _Damage(Exception):
    def __init__(self, reason: Reason, at: int) -> None:
        self.reason, self.at = reason, at


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
    if reader.read("".join(pieces)):
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
                    self._routes.setdefault((_latin(cat), _latin(phase)), sink)
        self._skipped: dict[str, int] = {}

    def read(self, more: str) -> bool:
        """Take more input and read on; False once the reading has stopped at damage."""
        self._text = text = self._text + more
        state, end, at = self.state, len(self._text), 0
        if state.where == Where.START and self._offset == 0:
            if text.startswith("\xef\xbb\xbf"):
                at = 3
            elif "\xef\xbb\xbf".startswith(text):
                return True
        try:
            while True:
                self._start = at = _blanks(text, at)
                state.inside = False
                if at == end:
                    break
                at = self._unit(text, at)
                if at - self._start > self._limit:
                    raise _Damage(Reason.TOO_LONG, self._start)
        except _NeedInput:
            if end - self._start > self._limit:
                return self._stop(Reason.TOO_LONG, self._start)
        except _Damage as damage:
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
                raise _Damage(Reason.UNEXPECTED, at)
        return at + 1

    def _member(self, text: str, start: int) -> int:
        state = self.state
        state.inside = True
        key, at = _key(text, start)
        if text[at] == "[" and _unescaped(key) == "traceEvents":
            state.found = True
            state.where = Where.EVENTS
            return at + 1
        end = _skip_value(text, at, 0)
        if end - start <= self._limit:
            state.where = Where.AFTER_VALUE
            kept = end - at <= HEADER_LIMIT
            state.add_header(key.encode("latin-1"), text[at:end].encode("latin-1") if kept else None)
        return end

    def _events(self, text: str, at: int) -> int:
        """All events up to the end of the buffer, or one other thing in the list."""
        state, limit, end_of_text = self.state, self._limit, len(text)
        while True:
            at = _separators(text, at)
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
                raise _Damage(Reason.TOO_LONG, at)
            if event is None or not self._is_plain(text, at, end) or not self._add_plain(event):
                own, args, end = _walk_event(text, at)
                if end - at > limit:
                    raise _Damage(Reason.TOO_LONG, at)
                self._add(own, args)
            state.count += 1
            at = end
        if text[at] == "]":
            state.where = Where.AFTER_ALL if state.is_list else Where.AFTER_VALUE
            return at + 1
        at = _skip_value(text, at, 0)
        state.malformed += 1
        return at

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
            (tuple(map(_latin, column.keys)), column.kind, column.in_args, values.append)
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
                row.append(_nanoseconds(_number_text(value)))
            elif of_type is int and -_INT_MOST <= value <= _INT_MOST:
                row.append(value)
            else:
                row.append(_integer(_number_text(value)))
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
                append(_nanoseconds(inside) if kind == Kind.NS else _integer(inside))

    def columns(self) -> Columns:
        """The columns as arrays, without a copy."""
        return {
            column.name: np.frombuffer(values, np.int32 if column.kind == Kind.CODE else np.int64)
            for column, values in zip(self.table.columns, self._arrays, strict=True)
        }


# ---- numbers ----


def _number_text(value: Any) -> str:
    """The text of a value that may be a number."""
    if type(value) is bool:
        return "true" if value else "false"
    return value.decode("latin-1") if type(value) is bytes else str(value)


def _nanoseconds(text: str) -> int:
    """Decimal microseconds to nanoseconds, rounded half to even; MISSING for anything else."""
    return _decimal(text, 3, False, _NS_MOST, _NS_MOST)


def _integer(text: str) -> int:
    """A whole number in the range of int64; MISSING for anything else."""
    return _decimal(text, 0, True, _INT_MOST, _INT_MOST + 1)


def _decimal(text: str, shift: int, exact: bool, most: int, most_negative: int) -> int:
    """A JSON number shifted `shift` places to the left; `decimal` in scan.c."""
    if not _NUMBER.fullmatch(text):
        return MISSING
    match = _PARTS.fullmatch(text)
    assert match is not None
    sign, whole, fraction, exponent = match.groups()
    digits = whole + (fraction or "")
    power = _exponent(exponent) if exponent else 0
    places = len(whole) + power + shift
    kept, rest = (digits[:places], digits[places:]) if places >= 0 else ("", "0" + digits)
    kept = kept.lstrip("0")
    if kept:
        kept += "0" * min(max(places - len(digits), 0), 20)
    if len(kept) > 19 or (exact and rest.strip("0")):
        return MISSING
    value = int(kept or "0")
    half = rest[:1] or "0"
    if half > "5" or (half == "5" and (rest[1:].strip("0") or value & 1)):
        value += 1
    if value > (most_negative if sign else most):
        return MISSING
    return -value if sign else value


def _exponent(text: str) -> int:
    """An exponent, held at 10^12 as in scan.c: no text is that long."""
    sign = -1 if text[0] == "-" else 1
    digits = text.lstrip("+-").lstrip("0")
    return sign * (int(digits or "0") if len(digits) <= 12 else 10**12)


# ---- texts ----


def _latin(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def _unescaped(inside: str) -> str | None:
    """The text of a string's inside, in the Latin-1 form of the buffer; None for a bad escape."""
    if "\\" not in inside:
        return inside
    try:
        text = json.loads(f'"{inside.encode("latin-1").decode("utf-8", "surrogateescape")}"', strict=False)
        return str(text).encode("utf-8", "surrogateescape").decode("latin-1")
    except ValueError:
        return None


def _name(token: str) -> str | None:
    """A raw cat or ph as it is routed by."""
    return "" if token == "null" else _unescaped(token[1:-1]) if token[0] == '"' else None


# ---- the grammar of scan.c ----


def _blanks(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    assert match is not None
    return match.end()


def _separators(text: str, at: int) -> int:
    """Behind blanks and commas; some writers leave out the commas between events, or end with one."""
    match = _SEPARATORS.match(text, at)
    assert match is not None
    return match.end()


def _here(text: str, at: int) -> str:
    """The character at a place where one must stand."""
    if at >= len(text):
        raise _NeedInput
    return text[at]


def _expect(text: str, at: int, char: str) -> None:
    if _here(text, at) != char:
        raise _Damage(Reason.UNEXPECTED, at)


def _string_end(text: str, start: int) -> int:
    """The place behind the string that starts here."""
    at, quote = start + 1, -1
    while True:
        if quote < at:
            quote = text.find('"', at)
            if quote < 0:
                raise _NeedInput
        escape = text.find("\\", at, quote)
        if escape < 0:
            return quote + 1
        at = escape + 2


def _skip_brackets(text: str, at: int, depth: int) -> int:
    opened: list[str] = []
    while True:
        match = _BRACKETS.search(text, at)
        if match is None:
            raise _NeedInput
        at = match.start()
        char = text[at]
        if char == '"':
            at = _string_end(text, at)
            continue
        if char in "[{":
            if len(opened) == MAX_DEPTH - depth:
                raise _Damage(Reason.TOO_DEEP, at)
            opened.append("]" if char == "[" else "}")
        elif opened.pop() != char:
            raise _Damage(Reason.UNEXPECTED, at)
        at += 1
        if not opened:
            return at


def _skip_word(text: str, at: int) -> int:
    match = _WORD.match(text, at)
    assert match is not None
    if match.end() == len(text):
        raise _NeedInput
    if match[0] in ("true", "false", "null") or match[1].lower() in ("nan", "inf", "infinity"):
        return match.end()
    raise _Damage(Reason.UNEXPECTED, at)


def _skip_value(text: str, at: int, depth: int) -> int:
    char = _here(text, at)
    if char == '"':
        return _string_end(text, at)
    if char in "[{":
        return _skip_brackets(text, at, depth)
    if char in "-0123456789" and not (char == "-" and text[at + 1 : at + 2].isalpha()):
        if _CUT_NUMBER.match(text, at):
            raise _NeedInput
        match = _NUMBER.match(text, at)
        if match is None:
            raise _Damage(Reason.UNEXPECTED, at)
        return match.end()
    return _skip_word(text, at)


def _key(text: str, at: int) -> tuple[str, int]:
    """A key without its quotes, and the place of its value."""
    _expect(text, at, '"')
    end = _string_end(text, at)
    colon = _blanks(text, end)
    _expect(text, colon, ":")
    value = _blanks(text, colon + 1)
    _here(text, value)
    return text[at + 1 : end - 1], value


def _walk_event(text: str, at: int) -> tuple[Slots, Slots, int]:
    own: Slots = {}
    args: Slots = {}

    def keep_args(value: int) -> int:
        args.clear()  # the last args wins
        if text[value] != "{":
            return _skip_value(text, value, 1)
        return _walk_object(text, value, lambda inner: _skip_value(text, inner, 2), args)

    def value_end(value: int) -> int:
        return _skip_value(text, value, 1)

    end = _walk_object(text, at, value_end, own, keep_args)
    return own, args, end


def _walk_object(
    text: str,
    at: int,
    value_end: Callable[[int], int],
    slots: Slots,
    args_end: Callable[[int], int] | None = None,
) -> int:
    at = _blanks(text, at + 1)
    if _here(text, at) == "}":
        return at + 1
    while True:
        raw, value = _key(text, at)
        key = _unescaped(raw)
        end = args_end(value) if key == "args" and args_end is not None else value_end(value)
        if key is not None:
            slots[key] = (value, text[value:end])
        at = _blanks(text, end)
        char = _here(text, at)
        if char == "}":
            return at + 1
        if char != ",":
            raise _Damage(Reason.UNEXPECTED, at)
        at = _blanks(text, at + 1)
