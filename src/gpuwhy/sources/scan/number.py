"""Numbers for `pure`: their grammar, and their value without any float (number.h is the same in C)."""

from __future__ import annotations

import re

from gpuwhy.timeline import MISSING

NUMBER = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([-+]?[0-9]+))?")

INT_MOST = 2**63 - 1
_NS_MOST = 2**62


def nanoseconds(text: str) -> int:
    """Decimal microseconds to nanoseconds, rounded half to even; MISSING for anything else."""
    return _decimal(text, 3, False, _NS_MOST, _NS_MOST)


def integer(text: str) -> int:
    """A whole number in the range of int64; MISSING for anything else."""
    return _decimal(text, 0, True, INT_MOST, INT_MOST + 1)


def _decimal(text: str, shift: int, exact: bool, most: int, most_negative: int) -> int:
    """A JSON number shifted `shift` places to the left, rounded half to even or, with `exact`, not at all."""
    match = NUMBER.fullmatch(text)
    if match is None:
        return MISSING
    sign, whole, fraction, exponent = match.groups()
    digits = whole + (fraction or "")
    places = len(whole) + (_exponent(exponent) if exponent else 0) + shift
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
    """An exponent, held at 10^12 as in number.h: no text is that long."""
    sign = -1 if text[0] == "-" else 1
    digits = text.lstrip("+-").lstrip("0")
    return sign * (int(digits or "0") if len(digits) <= 12 else 10**12)
