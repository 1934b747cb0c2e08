"""The report as JSON, and the JSON Schema of it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from gpuwhy.reports.model import Report


def encode(report: Report) -> str:
    """The report as indented JSON with a final newline."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1).decode() + "\n"


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the report."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(Report)}


def schema_text() -> str:
    """What docs/report.schema.json holds; write it anew with `python -m gpuwhy.reports.json`."""
    return json.dumps(schema(), indent=1) + "\n"


if __name__ == "__main__":
    print(schema_text(), end="")  # noqa: T201
