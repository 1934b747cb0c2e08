"""Draws the pictures in docs/images anew, from the profile that comes with gpuwhy: `python benchmarks/pictures.py`.

Needs Playwright and a Chromium.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import gpuwhy
from gpuwhy import api
from gpuwhy.reports.html.page import render

DEMO = Path(gpuwhy.__file__).parent / "data" / "demo.pt.trace.json.gz"
IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
WIDTH = 1040
NAME = "profile.json.gz"
"""Which the pictures are of, instead of a path of this machine."""


def main() -> None:
    """Writes report.png (the head of the page) and timeline.png."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    asked = parser.parse_args()
    from playwright.sync_api import sync_playwright

    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        path = Path(name) / "report.html"
        page_text = render(api.explained(gpuwhy.load(str(DEMO)))).replace(str(DEMO), NAME)
        path.write_text(page_text, encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=asked.chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 1000}, color_scheme="light")
        page.goto(path.as_uri(), wait_until="load")
        for chart in page.query_selector_all(".chart"):
            chart.scroll_into_view_if_needed()
            page.wait_for_timeout(300)
        page.evaluate("() => window.scrollTo(0, 0)")
        page.wait_for_timeout(300)
        shot(page, "#verdict-head", "#waterfall", IMAGES / "report.png")
        shot(page, ".timeline .tools", ".timeline .legend", IMAGES / "timeline.png")
        browser.close()


def shot(page: Any, first: str, last: str, path: Path) -> None:
    """The part of a page from one element to another."""
    top, bottom = (page.locator(name).first.bounding_box() for name in (first, last))
    clip = {"x": 0, "y": top["y"] - 12, "width": WIDTH, "height": bottom["y"] + bottom["height"] - top["y"] + 24}
    page.screenshot(path=str(path), clip=clip, full_page=True)


if __name__ == "__main__":
    main()
