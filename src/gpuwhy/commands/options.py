"""Options that every verb with a report has."""

from __future__ import annotations

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Write the report as JSON (docs/report.md).")]
Output = Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="Write the report to a file.")]
Html = Annotated[
    str | None,
    typer.Option("--html", metavar="FILE", help="Also write the report with pictures: one HTML file, to pass around."),
]
Redact = Annotated[
    bool,
    typer.Option("--redact", help="Replace names of files, functions, modules, hosts and users, in every report."),
]
Color = Annotated[
    bool | None, typer.Option("--color/--no-color", help="Colours; by default where the output is a terminal.")
]


def with_epilog(text: str | None, epilog: str) -> str:
    """A verb's help: what it does, then examples and exit statuses, each on a line of its own."""
    lines = epilog.replace("\n\n", "\n")
    return f"{text}\n\n\b\n{lines}" if text else epilog
