"""A report and its pictures → one HTML file that needs nothing else: no network, no other file.

Names come from strangers' programs. The template escapes them, what the scripts read is JSON in which nothing can end
its element, and the page's policy lets the browser run only the scripts that gpuwhy put there, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import re
from importlib import resources
from typing import Any

import msgspec

from gpuwhy.errors import GpuwhyError
from gpuwhy.explained import Explained
from gpuwhy.reports.build import Parts
from gpuwhy.reports.html.context import FILTERS, context
from gpuwhy.reports.html.drawing import draw
from gpuwhy.reports.html.scene import DeviceScene, Scene
from gpuwhy.reports.html.series import run_scene
from gpuwhy.reports.html.tables import kernels, sites

HERE = resources.files("gpuwhy.reports.html")
SCRIPTS = ("colours.js", "charts.js", "timeline.js", "page.js")
MOST_BOXES = 9_000
"""In all drawings together: about 40 bytes each."""
MOST_DRAWN = 4
"""Devices that are drawn, the least busy first."""


def render(explained: Explained) -> str:
    """The whole page.

    Raises GpuwhyError where Jinja is not installed.
    """
    jinja2 = _jinja2()
    scripts = [_read("vendor/echarts.min.js"), *(_read(f"static/{name}") for name in SCRIPTS)]
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _read(f"templates/{name}")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    pictures = scene(explained)
    page: str = environment.get_template("page.html").render(
        **context(explained.report, pictures),
        data=_json({"report": explained.report, "scene": pictures}),
        style=_read("static/page.css"),
        scripts=scripts,
        policy=_policy(scripts),
    )
    return page


def scene(explained: Explained) -> Scene:
    """All pictures."""
    return Scene(
        devices=_devices(explained.parts) if explained.parts is not None else [],
        run=run_scene(explained.watched) if explained.watched is not None else None,
    )


def _devices(parts: Parts) -> list[DeviceScene]:
    order = sorted(range(len(parts.ledgers)), key=lambda i: parts.ledgers[i].busy_ns / parts.ledgers[i].window_ns)
    drawn = sorted(order[:MOST_DRAWN])
    found = []
    for place in drawn:
        ledger = parts.ledgers[place]
        device = parts.basis.timeline.devices[ledger.device]
        listed, more = kernels(parts.rooflines[place].view)
        places, more_places = sites(parts.basis, ledger)
        found.append(
            DeviceScene(
                rank=device.rank,
                device=device.number,
                drawing=draw(parts.basis, ledger, MOST_BOXES // len(drawn)),
                kernels=listed,
                more_kernels=more,
                sites=places,
                more_sites=more_places,
            )
        )
    return found


def _jinja2() -> Any:
    try:
        import jinja2
    except ImportError:
        raise GpuwhyError("an HTML report needs Jinja", hint="pip install 'gpuwhy[report]'") from None
    return jinja2


def _read(name: str) -> str:
    return HERE.joinpath(*name.split("/")).read_text("utf-8")


def _json(value: object) -> str:
    """JSON that stays text within an element: no `<` can end it, and no line separator ends a line."""
    text = msgspec.json.encode(value).decode("utf-8", "replace")
    return re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text)


def _policy(scripts: list[str]) -> str:
    """Only these scripts run, and nothing is loaded from anywhere."""
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
