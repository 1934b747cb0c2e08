"""The report as JSON, and the JSON Schema of it."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec

from gpuwhy.reports.compare_model import Comparison
from gpuwhy.reports.model import Report


def encode(report: Report | Comparison) -> str:
    """A report as indented JSON with a final newline."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1).decode() + "\n"


KINDS: dict[str, type] = {"report": Report, "comparison": Comparison}


def schema(kind: str = "report") -> dict[str, Any]:
    """The JSON Schema (2020-12) of a report or a comparison."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(KINDS[kind])}


def schema_text(kind: str = "report") -> str:
    """What docs/KIND.schema.json holds; write it anew with `python -m gpuwhy.reports.json KIND`."""
    return json.dumps(schema(kind), indent=1) + "\n"


if __name__ == "__main__":
    print(schema_text(*sys.argv[1:]), end="")  # noqa: T201
