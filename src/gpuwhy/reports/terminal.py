"""Lines and paragraphs on a terminal, as every text report writes them.

Names come from strangers' files: they are never interpreted as markup and lose their control characters.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from gpuwhy.reports.words import clean, shorten

if TYPE_CHECKING:
    from rich.console import Console

MOST_WIDTH, LEAST_WIDTH = 100, 60


class Page:
    """A console, and the columns of it that are used."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.width = max(LEAST_WIDTH, min(console.width, MOST_WIDTH))

    def line(self, text: str = "", figures: str = "", style: str = "") -> None:
        """One line, cut to the width, figures at its right end."""
        room = self.width - (len(figures) + 1 if figures else 0)
        text = shorten(text, room)
        self.console.print(
            (text.ljust(room) + " " + figures if figures else text),
            style=style or None,
            markup=False,
            emoji=False,
            highlight=False,
        )

    def paragraph(self, text: str, style: str = "", first: str = "", rest: str = "") -> None:
        """Lines that a text is wrapped into; `first` and `rest` stand before them."""
        for part in textwrap.wrap(clean(text), self.width, initial_indent=first, subsequent_indent=rest):
            self.line(part, style=style)
