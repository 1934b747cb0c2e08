"""A headless Chromium that opens pages and tells all that went wrong with them.

Chromium comes from the system (Debian's package; or GPUWHY_CHROMIUM names one) and Playwright drives it. Where one of
them is absent, the tests are skipped and say which.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from events import Profile
from journaling import OPTIMIZER, Process, write_run

from gpuwhy import api
from gpuwhy.explained import Explained
from gpuwhy.reports.html.page import render

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NOISE = ("log", "info", "debug", "startGroup", "endGroup")
"""Kinds of console messages that are no complaint."""
DRAW = """async () => {
  const ids = [];
  for (const chart of document.querySelectorAll(".chart")) {
    chart.scrollIntoView({ block: "center" });
    for (let frame = 0; !echarts.getInstanceByDom(chart); frame += 1) {
      if (frame > 300) throw new Error("not drawn: " + chart.id);
      await new Promise(requestAnimationFrame);
    }
    ids.push(chart.id);
  }
  return ids;
}"""
"""Scrolls to each picture until it is drawn; their ids."""
COLOURS = """() => [...document.querySelectorAll(".chart")].map((chart) => {
  const seen = new Set();
  for (const canvas of chart.querySelectorAll("canvas")) {
    const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    for (let at = 0; at < pixels.length; at += 7) seen.add(pixels[at]);
  }
  return [chart.id, seen.size];
})"""
"""How many colours each picture has; 0 without a canvas, 1 if it is blank."""


PAINTED = """([id, account]) => {
  const value = parseInt(colourOf(account).slice(1), 16);
  const wanted = [value >> 16, (value >> 8) & 255, value & 255];
  let found = 0;
  for (const canvas of document.getElementById(id).querySelectorAll("canvas")) {
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    for (let at = 0; at < data.length; at += 4) found += wanted.every((part, place) => data[at + place] === part);
  }
  return found;
}"""


def missing() -> str | None:
    """Why no browser can be driven, if so."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "no browser: Playwright is not installed (pip install playwright)"
    if executable() is None:
        return f"no browser: none of {', '.join(NAMES)} is installed (apt-get install chromium), and no GPUWHY_CHROMIUM"
    return None


def executable() -> str | None:
    """The browser's path."""
    named = os.environ.get("GPUWHY_CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser; the test that asks for one is skipped where there is none."""
    why = missing()
    if why is not None:
        pytest.skip(why)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # Root may not use Chromium's sandbox, and what is opened here was written by the tests.
        browser = driver.chromium.launch(executable_path=executable(), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Opened:
    """A report in a tab of its own, and all that it complained of since it was opened."""

    def __init__(self, browser: Any, path: Path, *, width: int = 1280, dark: bool = False) -> None:
        scheme = "dark" if dark else "light"
        self.tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.told: list[str] = []
        self.tab.on("console", lambda message: self._tell(message.type, message.text))
        self.tab.on("pageerror", lambda error: self.told.append(f"error: {error}"))
        self.tab.on("dialog", self._dismiss)
        self.tab.on("request", lambda request: self._request(request.url))
        self.address = path.resolve().as_uri()
        self.tab.goto(self.address)
        self.data: str = self.tab.text_content("#data")

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *error: object) -> None:
        self.tab.close()

    def charts(self) -> list[str]:
        """The ids of all pictures, each drawn by having been scrolled to."""
        ids: list[str] = self.tab.evaluate(DRAW)
        self.settle()
        return ids

    def settle(self) -> None:
        """Wait until what was asked for is painted."""
        self.tab.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def blank(self) -> dict[str, int]:
        """Pictures with hardly any colours, and how many they have: that is no picture."""
        self.charts()
        return {name: colours for name, colours in self.tab.evaluate(COLOURS) if colours < 20}

    def painted(self, chart: str, account: str) -> int:
        """How many pixels of a picture have the colour of an account."""
        found: int = self.tab.evaluate(PAINTED, [chart, account])
        return found

    def overflow(self) -> int:
        """Pixels by which the page is wider than its window."""
        found: int = self.tab.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")
        return found

    def violations(self) -> list[str]:
        """What axe says against the page, by WCAG 2.1, levels A and AA."""
        from axe_playwright_python.sync_playwright import Axe

        tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
        rules = {"runOnly": {"type": "tag", "values": tags}, "resultTypes": ["violations"]}
        found = Axe().run(self.tab, options=rules).response["violations"]
        return [f"{one['id']}: {node['html'][:200]} {node['failureSummary']}" for one in found for node in one["nodes"]]

    def _tell(self, kind: str, text: str) -> None:
        if kind not in NOISE and "willReadFrequently" not in text:  # which only these tests do
            self.told.append(f"{kind}: {text}")

    def _dismiss(self, dialog: Any) -> None:
        self.told.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, url: str) -> None:
        if url != self.address and not url.startswith("data:"):
            self.told.append(f"request: {url}")


# --- what strangers' programs may put into a profile ----------------------------------------------------------

HOSTILE = (
    "<script>window.hacked=1</script>",
    "</script><script>window.hacked=1</script>",
    "<!--<script>",
    '"><img src=x onerror=window.hacked=1>',
    "'><svg onload=window.hacked=1>",
    "{{7*7}}{% raw %}${7*7}",
    "javascript:window.hacked=1",
    "]]><style>*{display:none}</style>",
    "line\u2028separator\u2029\nand\x00NUL\x1b[31m",
    "half \ud800 of a character",
    "turned \u202egnp.exe",
    "&lt;b&gt;&#x3c;script&#x3e;",
)


def hostile_profile() -> Profile:
    """Every text of a profile that a program chooses, with every hostile text in turn."""
    p = Profile(gpu=HOSTILE[0] + HOSTILE[9] + HOSTILE[3])
    for step in range(6):
        at = step * 1_000_000
        p.step(step + 3, at, at + 990_000)
        p.annotation(f"ProfilerStep#{HOSTILE[1]}", at, at + 980_000)
        for place, text in enumerate((*HOSTILE, HOSTILE[1] * 2_500)):
            begin = at + 1_000 + place * 60_000
            p.frame(f"train.py({place}): {text}", begin, begin + 55_000)
            p.annotation(f"note {text}", begin + 1_000, begin + 54_000)
            p.operator(text, begin + 20_000, begin + 50_000, inputs=[(text, [8, 8]), (text, text)])
            p.operator("aten::mm", begin + 21_000, begin + 49_000, inputs=[(text, [64, 64]), ("float", [64, 64])])
            p.launch(begin + 30_000, begin + 40_000, begin + 45_000, begin + 58_000, name=text)
            p.launch(begin + 41_000, begin + 42_000, begin + 59_000, begin + 59_900, name=f"void {text}<int>(int)")
    return p


def hostile_run(folder: Path) -> Path:
    """A run whose every text is hostile."""
    process = Process().anchored(OPTIMIZER).every(10, 40, since=100)
    process.note("missing", 5, what=HOSTILE[1]).note("failed", 6, error=HOSTILE[3]).note("torch", 2, version=HOSTILE[3])
    write_run(folder / '"><img src=x onerror=window.hacked=1>', process, command=["python", *HOSTILE[:9]])
    return folder / '"><img src=x onerror=window.hacked=1>'


# --- pages ----------------------------------------------------------------------------------------------------


def explained(*paths: Path | str, window: Any = None, device: int | None = None) -> Explained:
    """All that was found in profiles."""
    timeline = api.load(*map(str, paths))
    return api.explained(timeline, api.selection(None, window), device)


def page_of(found: Explained) -> str:
    """Its page."""
    return render(found)
