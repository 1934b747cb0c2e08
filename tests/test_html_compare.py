"""The page of a comparison: in a browser, and what it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Opened, chromium, hostile_profile
from test_compare import DEMO, run_of, steps

from gpuwhy.compare.gate import parse
from gpuwhy.compare.whole import compared
from gpuwhy.reports.html.comparison import render


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def sides(which: str, folder: Path) -> tuple[str, str]:
    if which == "runs":
        return tuple(str(run_of(folder / n, f * steps(900, s))) for n, f, s in (("a", 1, 1), ("b", 1.1, 2)))  # type: ignore[return-value]
    if which == "a run without steps":
        return str(DEMO), str(run_of(folder / "none", []))
    hostile = hostile_profile()
    hostile.write(folder / "hostile.json")
    return str(DEMO), str(folder / "hostile.json")


@pytest.mark.parametrize("which", ["runs", "a run without steps", "a stranger's profile"])
def test_a_comparison_makes_no_complaint_and_runs_nothing_of_a_stranger(which: str, browser: Any, folder: Path) -> None:
    found = compared(*sides(which, folder), [parse("step_time > +5%")])
    path = folder / f"{which}.html"
    path.write_text(render(found), encoding="utf-8")
    assert path.stat().st_size < 2_000_000
    with Opened(browser, path) as tab:
        drawn = tab.charts()
        assert set(drawn) >= {"steps"}
        assert tab.blank() == {}
        assert tab.tab.locator("h1").inner_text().startswith(found.verdict[:30])
        for head in tab.tab.locator("thead button").all():
            head.click()
        if which == "runs":
            assert tab.violations() == []
            tab.tab.locator("#theme").click()
            assert tab.violations() == []
        assert tab.tab.evaluate("() => window.hacked") is None
        assert tab.overflow() == 0
        assert tab.told == []


def test_the_page_says_what_the_comparison_does(folder: Path) -> None:
    found = compared(*sides("runs", folder), [parse("step_time > +5%")])
    page = render(found)
    assert found.typical is not None
    assert f"× {found.typical.ratio.mid:.3f}" in page
    assert "more than noise" in page
    assert '<strong class="fail">holds</strong>' in page
