"""The grammar of JSON values for `pure`, rule by rule that of grammar.h, and the walk of an event.

Each function takes the place where something begins and returns the place behind it. The input is held as Latin-1
text: one character a byte, of any value.
"""

from __future__ import annotations

import json
import re

from gpuwhy.sources.scan.events import MAX_DEPTH, Reason
from gpuwhy.sources.scan.number import NUMBER

_BLANKS = re.compile(r"[ \t\n\r]*")
_SEPARATORS = re.compile(r"[ \t\n\r,]*")
_BRACKETS = re.compile(r'["\[\]{}]')
_CUT_NUMBER = re.compile(
    r"(?:-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*|(?:\.[0-9]+)?[eE][-+]?[0-9]*)?)?)\Z"
)  # what a number that the end of the buffer cuts looks like
_WORD = re.compile(r"-?([A-Za-z]{0,9})")

Slots = dict[str, tuple[int, str]]
"""Key to the place and raw text of its value."""


class NeedInput(Exception):
    """The buffer ends inside the value."""


class Damage(Exception):
    """What stands at this place of the buffer does not belong there."""

    def __init__(self, reason: Reason, at: int) -> None:
        self.reason, self.at = reason, at


# ---- names ----


def latin(text: str) -> str:
    """A text in the form of the buffer."""
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def unescaped(inside: str) -> str | None:
    """The text of a string's inside, in the form of the buffer; None for a bad escape."""
    if "\\" not in inside:
        return inside
    try:
        text = json.loads(f'"{inside.encode("latin-1").decode("utf-8", "surrogateescape")}"', strict=False)
        return str(text).encode("utf-8", "surrogateescape").decode("latin-1")
    except ValueError:
        return None


# ---- values ----


def blanks(text: str, at: int) -> int:
    """Behind the blanks from here on."""
    match = _BLANKS.match(text, at)
    assert match is not None
    return match.end()


def separators(text: str, at: int) -> int:
    """Behind blanks and commas; some writers leave out the commas between events, or end with one."""
    match = _SEPARATORS.match(text, at)
    assert match is not None
    return match.end()


def _here(text: str, at: int) -> str:
    """The character at a place where one must stand."""
    if at >= len(text):
        raise NeedInput
    return text[at]


def _expect(text: str, at: int, char: str) -> None:
    if _here(text, at) != char:
        raise Damage(Reason.UNEXPECTED, at)


def _string_end(text: str, start: int) -> int:
    """The place behind the string that starts here."""
    at, quote = start + 1, -1
    while True:
        if quote < at:
            quote = text.find('"', at)
            if quote < 0:
                raise NeedInput
        escape = text.find("\\", at, quote)
        if escape < 0:
            return quote + 1
        at = escape + 2


def _skip_brackets(text: str, at: int, depth: int) -> int:
    opened: list[str] = []
    while True:
        match = _BRACKETS.search(text, at)
        if match is None:
            raise NeedInput
        at = match.start()
        char = text[at]
        if char == '"':
            at = _string_end(text, at)
            continue
        if char in "[{":
            if len(opened) == MAX_DEPTH - depth:
                raise Damage(Reason.TOO_DEEP, at)
            opened.append("]" if char == "[" else "}")
        elif opened.pop() != char:
            raise Damage(Reason.UNEXPECTED, at)
        at += 1
        if not opened:
            return at


def _skip_word(text: str, at: int) -> int:
    match = _WORD.match(text, at)
    assert match is not None
    if match.end() == len(text):
        raise NeedInput
    if match[0] in ("true", "false", "null") or match[1].lower() in ("nan", "inf", "infinity"):
        return match.end()
    raise Damage(Reason.UNEXPECTED, at)


def skip_value(text: str, at: int, depth: int) -> int:
    """Behind a value that has `depth` open brackets around it."""
    char = _here(text, at)
    if char == '"':
        return _string_end(text, at)
    if char in "[{":
        return _skip_brackets(text, at, depth)
    if char in "-0123456789" and not (char == "-" and text[at + 1 : at + 2].isalpha()):
        if _CUT_NUMBER.match(text, at):
            raise NeedInput
        match = NUMBER.match(text, at)
        if match is None:
            raise Damage(Reason.UNEXPECTED, at)
        return match.end()
    return _skip_word(text, at)


def key_and_value(text: str, at: int) -> tuple[str, int]:
    """A key without its quotes, and the place of its value."""
    _expect(text, at, '"')
    end = _string_end(text, at)
    colon = blanks(text, end)
    _expect(text, colon, ":")
    value = blanks(text, colon + 1)
    _here(text, value)
    return text[at + 1 : end - 1], value


# ---- events ----


def walk_event(text: str, at: int) -> tuple[Slots, Slots, int]:
    """What an event and its `args` hold, and the place behind it."""
    own: Slots = {}
    args: Slots = {}
    return own, args, _walk_object(text, at, own, args)


def _walk_object(text: str, at: int, slots: Slots, args: Slots | None = None) -> int:
    """Into `slots` what an event holds, and into `args` what its args do; or, with None there, such args."""
    at = blanks(text, at + 1)
    if _here(text, at) == "}":
        return at + 1
    while True:
        raw, value = key_and_value(text, at)
        key = unescaped(raw)
        if args is not None and key == "args":
            args.clear()  # the last args wins
            end = _walk_object(text, value, args) if text[value] == "{" else skip_value(text, value, 1)
        else:
            end = skip_value(text, value, 2 if args is None else 1)
        if key is not None:
            slots[key] = (value, text[value:end])
        at = blanks(text, end)
        if _here(text, at) == "}":
            return at + 1
        _expect(text, at, ",")
        at = blanks(text, at + 1)
