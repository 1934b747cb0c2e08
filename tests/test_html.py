"""The HTML report in a browser: what it shows, that it asks for nothing, and that nothing of a stranger's runs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from browser import Opened, chromium, explained, hostile_profile, hostile_run, page_of
from conftest import SHARED, load_benchmark
from events import Profile
from journaling import CHECKPOINT, COLLECTION, OPTIMIZER, PROFILE, Process, at, write_run
from test_html_page import contrast

from gpuwhy.explained import Explained
from gpuwhy.run.analyse import explain_run
from gpuwhy.run.gpus import GpuSample
from gpuwhy.run.processes import ProcessSample
from gpuwhy.run.watch import Sample

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "src/gpuwhy/data/demo.pt.trace.json.gz"
SWITCH = "traces/CodingPlatelets__SwitchTransformers/7867607_trace.json.gz"
AMD = "traces/AMD-AGI__TraceLens/tests/traces/mi300/resnet_act_checkpoint.json.gz"
FILES: dict[str, list[Path]] = {
    "demo": [DEMO],
    "healthy": [SHARED / "zoo/traces/well_fed_gpt.base.json.gz"],
    "loader": [SHARED / "zoo/traces/loader_few_workers.base.json.gz"],
    "checkpoint": [SHARED / "zoo/traces/checkpoint_each_step.base.json.gz"],
    "two ranks": [SHARED / f"zoo/ranks/straggler.base.rank{rank}.json.gz" for rank in (0, 1)],
    "graph decode": [ROOT / "tests/data/graph_decode.json.gz"],
    "AMD": [SHARED / AMD],
    "no steps": [SHARED / SWITCH],
}
REPORTS = [*FILES, "withheld", "run"]
TIMELINE = "echarts.getInstanceByDom(document.getElementById('r0d0-timeline'))"
AS_FAST = 2.0
"""Times as long as the page of a small profile takes, at most."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module", params=REPORTS)
def opened(request: pytest.FixtureRequest, browser: Any, folder: Path) -> Iterator[tuple[Opened, Explained]]:
    """A report in a tab, with all of its pictures drawn."""
    found = report(request.param, folder)
    with Opened(browser, written(page_of(found), folder / f"{request.param}.html")) as tab:
        tab.charts()
        yield tab, found
        assert tab.told == []  # nor later


@pytest.fixture(scope="module")
def demo_page(folder: Path) -> Path:
    return written(page_of(explained(DEMO)), folder / "the demo.html")


@pytest.fixture(scope="module")
def demo(browser: Any, demo_page: Path) -> Iterator[Opened]:
    """The demo's report in a tab of its own; who changes something that others look at changes it back."""
    with Opened(browser, demo_page) as tab:
        tab.charts()
        yield tab
        assert tab.told == []


def report(name: str, folder: Path) -> Explained:
    if name == "withheld":
        return explained(lossy().write(folder / "lossy.json"), window="all")
    if name == "run":
        return explain_run(watched_run(folder / "run"))
    absent = [str(path) for path in FILES[name] if not path.is_file()]
    if absent:
        pytest.skip(f"not there: {', '.join(absent)}")
    return explained(*FILES[name])


def written(page: str, path: Path) -> Path:
    path.write_text(page, encoding="utf-8")
    return path


def lossy() -> Profile:
    """Of 100 launches 11 have no kernel: the ledger is not to be trusted."""
    p = Profile()
    for i in range(89):
        p.launch(1000 * i, 1000 * i + 100, 1000 * i + 200, 1000 * i + 1100)
    for i in range(89, 100):
        p.runtime("cudaLaunchKernel", 1000 * i, 1000 * i + 100)
    return p


def watched_run(folder: Path) -> Path:
    """A run with a profile, counters, a checkpoint and garbage collections."""
    process = Process().anchored(OPTIMIZER).every(80, 100, since=500)
    process.record(CHECKPOINT, 3_000, 3_400).record(COLLECTION, 5_000, 5_020).record(PROFILE, 6_000, 6_500)
    process.note("profile", 6_500, file="profile.pt.trace.json.gz", first=70, last=75)
    write_run(folder, process, wall=9_000)
    (folder / "profile.pt.trace.json.gz").write_bytes(DEMO.read_bytes())
    samples = [
        Sample(
            t=at(100 * n),
            gpus=[GpuSample(index=0, utilization=0.5 + n % 7 / 20, sm=0.25, memory_used=n * 10**8, power_w=300 + n)],
            processes=[ProcessSample(pid=process_id, rss=10**9, cpu_s=n / 10) for process_id in (4100,)],
        )
        for n in range(1, 90)
    ]
    (folder / "counters.jsonl").write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in samples))
    return folder


# --- ten reports --------------------------------------------------------------------------------------------


def test_a_report_makes_no_complaint_and_asks_for_nothing(opened: tuple[Opened, Explained], tmp_path: Path) -> None:
    tab, _ = opened
    tab.tab.screenshot(path=tmp_path / "report.jpg", type="jpeg", quality=60, full_page=True)
    assert tab.told == []


def test_every_picture_is_drawn(opened: tuple[Opened, Explained]) -> None:
    tab, found = opened
    charts = set(tab.charts())
    assert charts >= {f"r{one.rank}d{one.device}-ledger" for one in found.report.devices}
    assert charts >= {f"r{one.rank}d{one.device}-timeline" for one in found.report.devices}
    assert ("run" in charts) == (found.watched is not None)
    assert tab.blank() == {}
    for device in json.loads(tab.data)["devices"]:
        drawn = device["drawing"]
        largest = max(range(len(drawn["accounts"])), key=lambda at: drawn["totals"][at])
        assert tab.painted(f"{device['id']}-timeline", drawn["accounts"][largest]) > 200


def test_a_report_fits_a_telephone(opened: tuple[Opened, Explained]) -> None:
    tab, _ = opened
    try:
        tab.tab.set_viewport_size({"width": 390, "height": 800})
        tab.settle()
        assert tab.overflow() == 0
        widths = tab.tab.eval_on_selector_all(
            ".chart canvas", "all => all.map((one) => one.getBoundingClientRect().width)"
        )
        assert max(widths) <= 390
    finally:
        tab.tab.set_viewport_size({"width": 1280, "height": 900})


def test_a_report_follows_the_preferred_colours(opened: tuple[Opened, Explained]) -> None:
    tab, _ = opened
    names = tab.charts()
    light = ground(tab), {name: paper_of(tab, name) for name in names}
    try:
        tab.tab.emulate_media(color_scheme="dark")
        tab.settle()
        assert light[0] == "rgb(255, 255, 255)"
        assert ground(tab) == "rgb(13, 17, 23)"
        assert [name for name in names if paper_of(tab, name) == light[1][name]] == []
        assert tab.blank() == {}
    finally:
        tab.tab.emulate_media(color_scheme="light")


def ground(tab: Opened) -> str:
    found: str = tab.tab.evaluate("() => getComputedStyle(document.body).backgroundColor")
    return found


def paper_of(tab: Opened, chart: str) -> Any:
    """The colour of a chart's tooltip: it is drawn anew with the page's colours."""
    return tab.tab.evaluate(
        "(id) => echarts.getInstanceByDom(document.getElementById(id)).getOption().tooltip[0].backgroundColor", chart
    )


# --- what can be done with one ------------------------------------------------------------------------------


def drawing(tab: Opened) -> dict[str, Any]:
    """What the timeline was drawn from."""
    found: dict[str, Any] = json.loads(tab.data)["devices"][0]["drawing"]
    return found


def point_at(tab: Opened, box: int) -> None:
    """Move the mouse to the middle of a box of the timeline."""
    boxes = drawing(tab)["boxes"]
    chart = tab.tab.locator("#r0d0-timeline")
    chart.scroll_into_view_if_needed()
    x, y = tab.tab.evaluate(
        f"(at) => {TIMELINE}.convertToPixel({{ seriesIndex: 0 }}, at)",
        [boxes["start"][box] + boxes["length"][box] // 2, boxes["lane"][box]],
    )
    place = chart.bounding_box()
    tab.tab.mouse.move(place["x"] + x - 5, place["y"] + y + 2)
    tab.tab.mouse.move(place["x"] + x, place["y"] + y + 2)
    tab.tab.wait_for_selector("#r0d0-timeline .tip", state="visible")


def test_the_timeline_tells_what_is_under_the_mouse(demo: Opened) -> None:
    drawn = drawing(demo)
    boxes = drawn["boxes"]
    for kind in ("ledger", "stream", "thread"):
        lanes = [at for at, lane in enumerate(drawn["lanes"]) if lane["kind"] == kind]
        box = max((at for at, lane in enumerate(boxes["lane"]) if lane in lanes), key=lambda at: boxes["length"][at])
        point_at(demo, box)
        title = demo.tab.text_content("#r0d0-timeline .tip b")
        lines = demo.tab.locator("#r0d0-timeline .tip small").all_text_contents()
        assert drawn["names"][boxes["name"][box]] in title
        assert drawn["accounts"][boxes["account"][box]] in lines[0]
        assert f"{boxes['ns'][box] / 1000:,.3f}".rstrip("0").rstrip(".") + " µs" in lines[1]
    assert demo.told == []


def shown(tab: Opened) -> tuple[float, float]:
    """The part of the timeline that is shown, in percent."""
    zoom = tab.tab.evaluate(f"() => {TIMELINE}.getOption().dataZoom[0]")
    return zoom["start"], zoom["end"]


def test_buttons_and_keys_zoom_and_say_so(demo: Opened) -> None:
    length = drawing(demo)["length_ns"] / 1e6
    told = demo.tab.locator("#r0d0-told")
    assert shown(demo) == (0, 100)
    for name, wanted in (("Zoom in", (25, 75)), ("Earlier", (12.5, 62.5)), ("Later", (25, 75)), ("Zoom out", (0, 100))):
        demo.tab.get_by_role("button", name=name).click()
        assert shown(demo) == pytest.approx(wanted)
        assert told.text_content().startswith("Shown: ")
    timeline = demo.tab.locator("#r0d0-timeline")
    assert (timeline.get_attribute("role"), timeline.get_attribute("tabindex")) == ("application", "0")
    timeline.focus()
    for key, wanted in (("+", (25, 75)), ("ArrowRight", (37.5, 87.5)), ("ArrowLeft", (25, 75)), ("-", (0, 100))):
        demo.tab.keyboard.press(key)
        assert shown(demo) == pytest.approx(wanted)
    demo.tab.keyboard.press("+")
    assert told.text_content() == f"Shown: {length / 4:.1f} to {length * 3 / 4:.0f} ms of {length:.0f} ms"
    demo.tab.get_by_role("button", name="Change to dark colours").click()
    assert shown(demo) == pytest.approx((25, 75))  # a change of colours keeps the place
    demo.tab.get_by_role("button", name="Change to light colours").click()
    demo.tab.get_by_role("button", name="All", exact=True).click()
    assert shown(demo) == (0, 100)


def test_the_mouse_zooms_with_ctrl_and_scrolls_the_page_without(demo: Opened) -> None:
    point_at(demo, 0)
    before = demo.tab.evaluate("() => window.scrollY")
    demo.tab.mouse.wheel(0, -100)
    demo.tab.wait_for_function("(before) => window.scrollY !== before", arg=before)
    assert shown(demo) == (0, 100)
    point_at(demo, 0)
    demo.tab.keyboard.down("Control")
    demo.tab.mouse.wheel(0, -400)
    demo.tab.keyboard.up("Control")
    demo.tab.wait_for_function(f"() => {TIMELINE}.getOption().dataZoom[0].end < 100")
    low, high = shown(demo)
    demo.tab.get_by_role("button", name="All", exact=True).click()
    assert 0 < high - low < 99


@pytest.mark.parametrize("table", ["operators", "kernels", "sites"])
def test_tables_sort_by_every_column(demo: Opened, table: str) -> None:
    heads = demo.tab.locator(f"#r0d0-{table} thead th")
    for place in range(heads.count()):
        head = heads.nth(place)
        head.locator("button").click()
        first, order = column(demo, table, place), head.get_attribute("aria-sort")
        head.locator("button").click()
        second = column(demo, table, place)
        down = order == "descending"
        assert down == (head.get_attribute("class") == "n")  # numbers begin with the largest
        assert first == sorted(first, reverse=down)
        assert second == sorted(second, reverse=not down)
        assert demo.tab.locator(f"#r0d0-{table} [aria-sort]").count() == 1


def column(tab: Opened, table: str, place: int) -> list[Any]:
    """What a column holds, as it is sorted."""
    found: list[Any] = tab.tab.eval_on_selector_all(
        f"#r0d0-{table} tbody tr",
        "(rows, place) => rows.map(({ cells: { [place]: cell } }) =>"
        " cell.dataset.v === undefined ? cell.textContent.toLowerCase() : Number(cell.dataset.v))",
        place,
    )
    return found


def test_the_button_changes_the_colours_and_back(demo: Opened) -> None:
    button, light = demo.tab.locator("#theme"), (ground(demo), paper_of(demo, "r0d0-ledger"))
    button.click()
    assert (ground(demo), paper_of(demo, "r0d0-ledger")) == ("rgb(13, 17, 23)", "#0d1117")
    assert button.text_content() == "Light"
    button.click()
    assert (ground(demo), paper_of(demo, "r0d0-ledger")) == light


def test_the_treemap_opens_and_says_the_way_back(demo: Opened) -> None:
    chart = demo.tab.locator("#r0d0-ledger")
    chart.scroll_into_view_if_needed()
    chart.click(position={"x": 300, "y": 120})  # the largest account
    words = """() => {
      const found = [];
      const chart = echarts.getInstanceByDom(document.getElementById("r0d0-ledger"));
      for (const one of chart.getZr().storage.getDisplayList(true)) if (one.style.text) found.push(one.style.text);
      return found;
    }"""
    demo.tab.wait_for_timeout(300)
    assert {"the window", "idle", "input"} <= set(demo.tab.evaluate(words))


def test_writing_on_colours_stands_out(demo: Opened) -> None:
    pairs = demo.tab.evaluate(
        "() => [...Object.values(COLOURS), ...Object.values(PHASES)].map((colour) => [colour, inkOn(colour)])"
    )
    assert len(pairs) > 40
    assert [pair for pair in pairs if contrast(*pair) < 4.5] == []


# --- everybody ----------------------------------------------------------------------------------------------


def test_axe_finds_nothing_in_either_colours(browser: Any, folder: Path) -> None:
    pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    path = written(page_of(report("run", folder)), folder / "axe.html")  # a run with its profile has every section
    with Opened(browser, path) as tab:
        # All rows are made alike, and axe takes long over each.
        tab.tab.eval_on_selector_all("tbody tr:nth-child(n + 3)", "rows => rows.forEach((row) => row.remove())")
        tab.tab.eval_on_selector_all("details", "all => all.forEach((one) => { one.open = true; })")
        tab.charts()
        assert tab.violations() == []
        tab.tab.locator("#theme").click()
        assert tab.violations() == []


@pytest.mark.parametrize("which", ["profile", "run"])
def test_nothing_of_a_stranger_runs(browser: Any, folder: Path, which: str) -> None:
    if which == "run":
        found = explain_run(hostile_run(folder))
    else:
        found = explained(hostile_profile().write(folder / "hostile.json"))
    with Opened(browser, written(page_of(found), folder / "hostile.html")) as tab:
        assert tab.blank() == {}
        tab.tab.eval_on_selector_all("details", "all => all.forEach((one) => { one.open = true; })")
        for head in tab.tab.locator("thead button").all():
            head.click()
        if which == "profile":
            lengths = drawing(tab)["boxes"]["length"]
            for box in [box for box, length in enumerate(lengths) if length > 10_000][::30]:
                point_at(tab, box)
                assert tab.tab.locator(".tip :not(b, small)").count() == 0  # text, and no elements of it
        tab.tab.locator("#theme").click()
        assert tab.tab.evaluate("() => window.hacked") is None
        assert tab.tab.evaluate("() => document.images.length") == 0
        assert tab.overflow() == 0
        assert tab.told == []


def test_a_page_runs_nothing_that_was_put_into_it_later(browser: Any, demo_page: Path, folder: Path) -> None:
    """The second line of defence: even markup that got through would do nothing."""
    put = "</h1><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
    page = demo_page.read_text("utf-8").replace("</h1>", put, 1)
    with Opened(browser, written(page, folder / "put.html")) as tab:
        tab.charts()
        assert tab.tab.evaluate("() => window.hacked") is None
        assert any("Content Security Policy" in line for line in tab.told)


def test_a_large_profile_is_a_small_page_that_opens_as_fast_as_another(
    browser: Any, demo_page: Path, folder: Path
) -> None:
    """In turns with the page of a profile with a fifth of its events (benchmarks/page_cost.py has 5 million)."""
    grow = load_benchmark("grow_profile")
    large = folder / "large.json.gz"
    grow.grow(grow.Source.read(DEMO, True), large, copies=5)
    found = explained(large)
    assert found.report.source.events > 100_000
    path = written(page_of(found), folder / "large.html")
    assert path.stat().st_size < 2_000_000
    pairs = [(seconds_to_open(browser, path), seconds_to_open(browser, demo_page)) for _ in range(3)]
    assert min(large / small for large, small in pairs) < AS_FAST


def seconds_to_open(browser: Any, path: Path) -> float:
    """Until the page is loaded and its first picture drawn."""
    began = time.perf_counter()
    with Opened(browser, path) as tab:
        tab.tab.evaluate("() => document.querySelector('.chart').scrollIntoView()")
        tab.tab.wait_for_function("() => document.querySelector('.chart canvas')")
        tab.settle()
        return time.perf_counter() - began
