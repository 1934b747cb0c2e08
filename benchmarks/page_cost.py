"""What the HTML report of a large profile costs: its size, its rendering, and the time to open it.

    python benchmarks/page_cost.py [--events 5300000] [--rounds 7] [--chromium /usr/bin/chromium]

The demo's profile is grown to so many events. Rendering is timed beside explaining in one process; opening, until the
page is loaded and its first picture drawn, in turns with the page of the demo itself (large, small, small, large, …).
Needs Playwright and a Chromium.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import grow_profile

import gpuwhy
from gpuwhy import api
from gpuwhy.reports.html.page import render

DEMO = Path(gpuwhy.__file__).parent / "data" / "demo.pt.trace.json.gz"


def page_of(profile: Path, folder: Path) -> dict[str, Any]:
    """Explains and renders; the page's path, size and the seconds of each."""
    began = time.perf_counter()
    timeline = gpuwhy.load(str(profile))
    loaded = time.perf_counter()
    explained = api.explained(timeline)
    told = time.perf_counter()
    page = render(explained)
    done = time.perf_counter()
    path = folder / f"{profile.stem}.html"
    path.write_text(page, encoding="utf-8")
    return {
        "path": path,
        "events": explained.report.source.events,
        "bytes": len(page.encode()),
        "load_s": loaded - began,
        "explain_s": told - loaded,
        "render_s": done - told,
    }


def open_s(browser: Any, path: Path) -> tuple[float, float]:
    """Seconds until the page is loaded, and until its first picture is drawn."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    began = time.perf_counter()
    page.goto(path.as_uri(), wait_until="load")
    loaded = time.perf_counter() - began
    page.evaluate("() => document.querySelector('.chart').scrollIntoView()")
    page.wait_for_function("() => document.querySelector('.chart canvas')")
    drawn = time.perf_counter() - began
    page.close()
    return loaded, drawn


def main() -> None:
    """Prints one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=5_300_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    asked = parser.parse_args()
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        source = grow_profile.Source.read(DEMO, True)
        large = folder / "large.json.gz"
        copies = -(-asked.events // api.explained(gpuwhy.load(str(DEMO))).report.source.events)
        grow_profile.grow(source, large, copies=copies)
        one, other = page_of(large, folder), page_of(DEMO, folder)
        browser = playwright.chromium.launch(executable_path=asked.chromium, args=["--no-sandbox"])
        times: dict[str, list[tuple[float, float]]] = {"large": [], "demo": []}
        for turn in range(asked.rounds):
            order = [("large", one), ("demo", other)]
            for which, page in order if turn % 2 == 0 else order[::-1]:
                times[which].append(open_s(browser, page["path"]))
        browser.close()
    ratios = [large[1] / small[1] for large, small in zip(times["large"], times["demo"], strict=True)]
    told = {
        **{key: value for key, value in one.items() if key != "path"},
        "render_over_explain": one["render_s"] / one["explain_s"],
        "loaded_s": [round(loaded, 3) for loaded, _ in times["large"]],
        "first_picture_s": [round(drawn, 3) for _, drawn in times["large"]],
        "first_picture_over_demo": [round(ratio, 3) for ratio in ratios],
        "median_first_picture_s": statistics.median(drawn for _, drawn in times["large"]),
    }
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
