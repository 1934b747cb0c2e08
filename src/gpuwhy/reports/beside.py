"""The copies that most of an idle account lies next to, for the verdict and the tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuwhy.ledger.accounts import within
from gpuwhy.reports.model import NextToCopy

MOST_OF = 0.5
"""Copies are named next to an account if this share of it lies in gaps that they begin or end."""


def mostly_next_to(near: Iterable[NextToCopy], account: str, ns: int) -> Iterator[tuple[NextToCopy, int]]:
    """Kinds of copies next to at least half of the account's `ns`: an entry with their figures, and how much it is."""
    kinds: dict[str, list[NextToCopy]] = {}
    for one in near:
        if within(one.account, account):
            kinds.setdefault(one.copy, []).append(one)
    for some in kinds.values():
        part = sum(one.ns for one in some)
        if part >= MOST_OF * ns:
            yield some[0], part
