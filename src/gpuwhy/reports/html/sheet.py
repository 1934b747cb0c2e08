"""A page that needs nothing else: a template, its style, scripts and data → one HTML file.

Names come from strangers' programs. The template escapes them, what the scripts read is JSON in which nothing can end
its element, and the page's policy lets the browser run only the scripts that gpuwhy put there, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Any

import msgspec

from gpuwhy.errors import GpuwhyError

HERE = resources.files("gpuwhy.reports.html")
LIBRARY = ("vendor/echarts.min.js", "static/colours.js")
"""Scripts that every page has, before its own."""


def sheet(
    template: str,
    scripts: Sequence[str],
    data: object,
    values: Mapping[str, object],
    filters: Mapping[str, Callable[..., object]],
) -> str:
    """The page that a template makes of `values`, with the scripts (after the library's) and the data that they read.

    Raises GpuwhyError where Jinja is not installed.
    """
    texts = [_read(name) for name in (*LIBRARY, *scripts)]
    page: str = (
        _environment(filters)
        .get_template(template)
        .render(**values, data=as_json(data), style=_read("static/page.css"), scripts=texts, policy=policy(texts))
    )
    return page


def needed() -> Any:
    """Jinja. Raises GpuwhyError where it is not installed."""
    try:
        import jinja2
    except ImportError:
        raise GpuwhyError("an HTML report needs Jinja", hint="pip install 'gpuwhy[report]'") from None
    return jinja2


def _environment(filters: Mapping[str, Callable[..., object]]) -> Any:
    jinja2 = needed()
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _read(f"templates/{name}")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment


def _read(name: str) -> str:
    return HERE.joinpath(*name.split("/")).read_text("utf-8")


def as_json(value: object) -> str:
    """JSON that stays text within an element: no `<` can end it, and no line separator ends a line."""
    text = msgspec.json.encode(value).decode()
    return re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text)


def policy(scripts: list[str]) -> str:
    """Only these scripts run, and nothing is loaded from anywhere."""
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
