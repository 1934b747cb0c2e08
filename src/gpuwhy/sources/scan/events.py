"""What a scan hands back, and how its end is put into words; the same for both back ends."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from numpy.typing import NDArray

LIMIT = 256 << 20
"""Longest event or top-level value, in bytes: what must be held in memory at once."""
HEADER_LIMIT = 16 << 20
"""Longest top-level value that is kept."""
MAX_DEPTH = 512
"""Most brackets that may be open inside an event, its own included."""
MAX_SKIPPED = 1000
"""Different categories whose skipped events are counted apart."""
MAX_SKIPPED_NAME = 256
"""Longest name of such a category, in bytes."""
PROGRESS_STEP = 4 << 20

Columns = dict[str, NDArray[Any]]
"""Column name to array: int64 for NS and INT, int32 for CODE."""


class NotEvents(Exception):
    """The input is not JSON, or is JSON without a list of events. The message says what was found."""


@dataclass(frozen=True)
class Events:
    """The wanted events as columns, and an account of everything else that was in the file."""

    tables: dict[str, Columns]
    """By table name."""
    texts: list[bytes]
    """Raw JSON text of each code; that of a string keeps its quotes and escapes."""
    header: dict[str, bytes]
    """Raw JSON text of each top-level key but `traceEvents`; values over 16 MiB are left out."""
    is_list: bool
    """The top level was a list of events, not an object."""
    count: int
    """Events seen, kept or not."""
    skipped: dict[str, int]
    """Events that no table wants, by category (as written, without its quotes); '' for none, and for the rest
    once there are 1000 different ones."""
    malformed: int
    """Elements of the event list that are not objects."""
    damage: str | None
    """What is wrong and where the reading stopped, in a sentence."""
    size: int
    """Bytes of JSON read."""


class Reason(IntEnum):
    """Why reading stopped."""

    NONE = 0
    ENDS = 1
    UNEXPECTED = 2
    TOO_DEEP = 3
    TOO_LONG = 4


class Where(IntEnum):
    """What is read next at the top level."""

    START = 0
    FIRST_KEY = 1
    NEXT_KEY = 2
    AFTER_VALUE = 3
    EVENTS = 4
    AFTER_ALL = 5


@dataclass
class State:
    """Where a scan stands; at its end, all that `conclude` needs besides the columns."""

    where: Where = Where.START
    inside: bool = False  # a unit (an event, or a top-level key and value) has begun
    found: bool = False  # an event list, or in list form an event, has begun
    is_list: bool = False
    count: int = 0
    malformed: int = 0
    size: int = 0
    reason: Reason = Reason.NONE
    position: int = 0
    byte: int = 0
    keys: list[str] = field(default_factory=list)  # the first top-level keys
    header: dict[str, bytes] = field(default_factory=dict)

    def add_header(self, key: bytes, value: bytes | None) -> None:
        """Keep one top-level value (None: too long to keep) under its key, given without quotes."""
        name = decoded(key)
        if len(self.keys) < 5 and name not in self.keys:
            self.keys.append(name)
        if name == "traceEvents":
            return
        self.header.pop(name, None)
        if value is not None:
            self.header[name] = value


def decoded(inside: bytes) -> str:
    """The text of what stands between a JSON string's quotes, as far as it can be made out."""
    text = inside.decode("utf-8", "replace")
    if "\\" in text:
        with contextlib.suppress(ValueError):
            text = str(json.loads(f'"{text}"', strict=False))
    return text


def conclude(
    state: State, tables: dict[str, Columns], texts: list[bytes], skipped: Sequence[tuple[bytes, int]]
) -> Events:
    """The result of a scan that has ended, or `NotEvents`."""
    damage = describe(state)
    empty_list = state.is_list and not state.malformed and state.reason == Reason.NONE
    if not (state.found or empty_list):
        raise NotEvents(explain(state, damage))
    names: dict[str, int] = {}
    for cat, count in skipped:
        name = cat.decode("utf-8", "replace")
        names[name] = names.get(name, 0) + count
    size = state.size if state.reason in (Reason.NONE, Reason.ENDS) else state.position
    return Events(tables, texts, state.header, state.is_list, state.count, names, state.malformed, damage, size)


def describe(state: State) -> str | None:
    """The damage in a sentence."""
    at = f"at byte {state.position:,}"
    if state.reason == Reason.NONE:
        return None
    if state.reason == Reason.TOO_DEEP:
        return f"nested more than {MAX_DEPTH} deep {at}"
    if state.reason == Reason.TOO_LONG:
        return f"a value that starts {at} is longer than {LIMIT >> 20} MiB"
    if state.reason == Reason.UNEXPECTED:
        after = state.where == Where.AFTER_ALL
        what = f"the JSON is broken: {shown(state.byte)} does not belong"
        return f"something follows the end of the JSON {at}" if after else f"{what} {at}"
    if state.where == Where.EVENTS:
        what = "in the middle of an event" if state.inside else "before its list of events is closed"
    else:
        what = "in the middle of a top-level value" if state.inside else "before it is closed"
    return f"the JSON ends {what} {at}"


def explain(state: State, damage: str | None) -> str:
    """Why there are no events at all."""
    if state.where == Where.START:
        if state.reason == Reason.ENDS:
            return "the file is empty"
        return f"not JSON: it starts with {shown(state.byte)}, not with an object or a list"
    if state.is_list:
        return f"a JSON list without events: {damage or 'its elements are not objects'}"
    if damage is not None and state.where != Where.AFTER_ALL:
        return f"no traceEvents before the damage: {damage}"
    keys = f"JSON without traceEvents; its keys are {', '.join(map(repr, state.keys))}"
    keys = keys if state.keys else "an empty JSON object, without traceEvents"
    return "its traceEvents is not a list" if "traceEvents" in state.keys else keys


def shown(byte: int) -> str:
    """A byte of the input as a reader can see it."""
    return repr(chr(byte)) if 32 < byte < 127 else f"the byte 0x{byte:02x}"
