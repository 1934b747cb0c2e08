"""A report and its pictures → one HTML file that needs nothing else: no network, no other file."""

from __future__ import annotations

from gpuwhy.explained import Explained
from gpuwhy.reports.build import Parts
from gpuwhy.reports.html.context import FILTERS, DeviceView, context, least_busy
from gpuwhy.reports.html.drawing import draw
from gpuwhy.reports.html.limits import MOST_BYTES, Limits
from gpuwhy.reports.html.scene import DeviceScene, Scene
from gpuwhy.reports.html.series import run_scene
from gpuwhy.reports.html.sheet import sheet
from gpuwhy.reports.html.tables import kernels, sites
from gpuwhy.reports.model import Report

SCRIPTS = ("static/charts.js", "static/timeline.js", "static/pictures.js", "static/report.js")


def render(explained: Explained) -> str:
    """The whole page, of at most `limits.MOST_BYTES` bytes.

    Raises GpuwhyError where Jinja is not installed.
    """
    limits = Limits()
    while True:
        page = _page(explained, limits)
        if len(page.encode()) <= MOST_BYTES or limits == limits.tighter():
            return page
        limits = limits.tighter()


def _page(explained: Explained, limits: Limits) -> str:
    pictures = scene(explained, limits)
    values = context(explained.report, pictures, limits)
    return sheet("report.html", SCRIPTS, data(values["devices"], values["report"], pictures), values, FILTERS)


def data(devices: list[DeviceView], report: Report, pictures: Scene) -> dict[str, object]:
    """What the pictures are drawn from; what tables and lists hold is in the page already."""
    return {
        "devices": [
            {
                "id": device.id,
                "label": device.label,
                "window_ns": device.report.window_ns,
                "tree": device.tree,
                "bars": device.bars,
                "ceilings": device.report.roofline.ceilings if device.report.roofline is not None else None,
                "operators": device.report.roofline.operators if device.report.roofline is not None else [],
                "drawing": device.scene.drawing if device.scene is not None else None,
            }
            for device in devices
        ],
        "step_ns": report.replay.step_ns if report.replay is not None else None,
        "together": report.together,
        "run": pictures.run,
    }


def scene(explained: Explained, limits: Limits) -> Scene:
    """All pictures."""
    return Scene(
        devices=_devices(explained.parts, limits) if explained.parts is not None else [],
        run=run_scene(explained.watched) if explained.watched is not None else None,
    )


def _devices(parts: Parts, limits: Limits) -> list[DeviceScene]:
    """Those that are drawn, the least busy ones."""
    drawn = least_busy(parts.ledgers, limits.drawn)
    found = []
    for place in drawn:
        ledger = parts.ledgers[place]
        device = parts.basis.timeline.devices[ledger.device]
        listed, more = kernels(parts.rooflines[place].view, limits)
        places, more_places = sites(parts.basis, ledger, limits)
        found.append(
            DeviceScene(
                rank=device.rank,
                device=device.number,
                drawing=draw(parts.basis, ledger, limits, len(drawn)),
                kernels=listed,
                more_kernels=more,
                sites=places,
                more_sites=more_places,
            )
        )
    return found
