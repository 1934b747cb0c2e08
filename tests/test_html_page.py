"""The HTML report without a browser: its pictures' data against slow ledgers, its bounds, and what may run in it."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import os
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import brute_force
import msgspec
import pytest
from browser import HOSTILE, explained, hostile_profile, hostile_run, page_of
from conftest import SHARED, needs_shared
from events import Profile
from test_ledger_properties import dense, devices, profile

from gpuwhy.explained import Explained
from gpuwhy.reports.html.context import Node, tree
from gpuwhy.reports.html.drawing import draw
from gpuwhy.reports.html.limits import Limits
from gpuwhy.reports.html.page import SCRIPTS as OWN
from gpuwhy.reports.html.page import render
from gpuwhy.reports.html.scene import Drawing
from gpuwhy.reports.html.sheet import HERE, LIBRARY
from gpuwhy.reports.html.tables import kernels, sites, step_bars
from gpuwhy.reports.model import StepTime
from gpuwhy.reports.words import MEANING
from gpuwhy.run.analyse import explain_run

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "src/gpuwhy/data/demo.pt.trace.json.gz"
WHOLE = Limits(rows=10**9)
SEEDS = range(12)
MOST_BYTES = 2_000_000
WIDE = "&\U0001f600" * 80
"""Characters that take many bytes in a page."""


@pytest.fixture(scope="module")
def demo() -> Explained:
    return explained(DEMO)


def drawing_of(found: Explained, limits: Limits = WHOLE) -> Drawing:
    assert found.parts is not None
    return draw(found.parts.basis, found.parts.ledgers[0], limits)


def first_device(seed: int, folder: Path) -> tuple[Profile, int, Explained]:
    """A profile of plain chance, one of its devices, and all that was found of it."""
    events = dense(seed)
    made, device = profile(events), devices(events)[0]
    return made, device, explained(made.write(folder / f"{seed}.json"), window="all", device=device)


# --- the timeline's boxes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_the_ledger_lane_gives_each_instant_the_account_of_the_slow_ledger(seed: int, folder: Path) -> None:
    made, device, found = first_device(seed, folder)
    drawn, expected = drawing_of(found), brute_force.ledger(made.document(), device)
    assert owned(drawn) == expected

    boxes = drawn.boxes
    mine = [box for box, lane in enumerate(boxes.lane) if drawn.lanes[lane].kind == "ledger"]
    assert {boxes.count[box] for box in mine} == {1}  # none is joined, in so short a time
    ends = [boxes.start[box] + boxes.length[box] for box in mine]
    assert [boxes.start[box] for box in mine] == [0, *ends[:-1]]
    assert ends[-1] == drawn.length_ns == sum(expected.values())
    by_account: Counter[str] = Counter()
    for box in mine:
        by_account[drawn.accounts[boxes.account[box]]] += boxes.length[box]
    assert by_account == expected


@pytest.mark.parametrize("most", [40, 400, 4000])
def test_joined_boxes_keep_the_number_and_the_time_of_what_they_stand_for(demo: Explained, most: int) -> None:
    fine, coarse = drawing_of(demo, Limits(boxes=10**9)), drawing_of(demo, Limits(boxes=most))
    assert len(coarse.boxes.lane) <= most < len(fine.boxes.lane)
    assert per_lane(coarse) == per_lane(fine)
    assert owned(coarse) == owned(fine)
    assert sum(coarse.totals) == coarse.length_ns

    shown = json.loads(msgspec.json.encode(demo.report.source))["files"]
    document = brute_force.read(Path(shown[0]))
    first = min(when[0] for event in document["traceEvents"] if (when := brute_force.times(event)))
    start, end = (first + coarse.start_ns, first + coarse.start_ns + coarse.length_ns)
    (work,) = brute_force.operations(document, []).values()
    lengths = [min(one["end"], end) - max(one["start"], start) for one in work]
    kept = [length for length in lengths if length > 0]
    streams = [sums for lane, sums in per_lane(coarse).items() if coarse.lanes[lane].kind == "stream"]
    assert streams == [(len(kept), sum(kept))]


def owned(drawn: Drawing) -> dict[str, int]:
    return {account: ns for account, ns in zip(drawn.accounts, drawn.totals, strict=True) if ns}


def per_lane(drawn: Drawing) -> dict[int, tuple[int, int]]:
    """Things and their time, by lane."""
    number, ns = Counter[int](), Counter[int]()
    for lane, count, time in zip(drawn.boxes.lane, drawn.boxes.count, drawn.boxes.ns, strict=True):
        number[lane] += count
        ns[lane] += time
    return {lane: (number[lane], ns[lane]) for lane in sorted(number)}


# --- tables, tree, bars -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_the_tables_hold_all_time_of_the_slow_ledger(seed: int, folder: Path) -> None:
    made, device, found = first_device(seed, folder)
    expected = brute_force.ledger(made.document(), device)
    assert found.parts is not None
    listed, more = kernels(found.parts.rooflines[0].view, WHOLE)
    busy: Counter[str] = Counter()
    for kernel in listed:
        busy[kernel.account] += kernel.ns
    assert +busy == {account: ns for account, ns in expected.items() if account.startswith("busy")}
    work = brute_force.operations(made.document(), [])[device]
    assert sum(kernel.count for kernel in listed) == sum(one["end"] > one["start"] for one in work)

    places, more_places = sites(found.parts.basis, found.parts.ledgers[0], WHOLE)
    assert sum(place.busy_ns for place in places) == sum(busy.values())
    assert sum(place.idle_ns for place in places) == sum(expected.values()) - sum(busy.values())
    assert more == more_places == 0


def test_a_table_tells_how_many_rows_it_leaves_out(demo: Explained) -> None:
    assert demo.parts is not None
    for table in (
        lambda limits: kernels(demo.parts.rooflines[0].view, limits),  # type: ignore[union-attr]
        lambda limits: sites(demo.parts.basis, demo.parts.ledgers[0], limits),  # type: ignore[union-attr]
    ):
        whole, none = table(WHOLE)
        some, more = table(Limits(rows=5))
        assert (some, more, none) == (whole[:5], len(whole) - 5, 0)


def many_frames(count: int) -> Profile:
    """Gaps in which that many functions ran, the later ones for longer."""
    p, at = Profile(), 0
    for number in range(count):
        p.launch(at, at + 10, at + 20, at + 30)
        p.frame(f"train.py({number}): part_{number}", at + 40, at + 41 + number)
        at += 50 + number
    p.launch(at, at + 10, at + 20, at + 30)
    return p


def test_every_level_of_the_tree_sums_to_the_one_above_and_the_smallest_are_summed_up(folder: Path) -> None:
    found = explained(many_frames(300).write(folder / "frames.json"), window="all")
    roots = tree(found.report.devices[0], Limits(parts=20))
    assert sum(node.ns for node in roots) == found.report.devices[0].window_ns
    todo: list[Node] = list(roots)
    names = []
    while todo:
        node = todo.pop()
        names.append(node.name)
        assert not node.children or sum(child.ns for child in node.children) == node.ns
        assert len(node.children) <= 21
        todo += node.children
    assert "train.py(299): part_299" in names
    assert "train.py(1): part_1" not in names
    assert any(re.fullmatch(r"\d+ more with less time each", name) for name in names)


def test_bars_of_many_steps_are_means_of_neighbours(demo: Explained) -> None:
    startup = [StepTime(number=n, ns=1000, busy_ns=None, startup=True) for n in range(3)]
    steps = [StepTime(number=n, ns=100 + n, busy_ns=n, startup=False) for n in range(3, 10_003)]
    bars = step_bars(msgspec.structs.replace(demo.report.devices[0], steps=startup + steps), 500)
    assert bars.joined == 21  # of 10,003 steps in 500 bars
    assert len(bars.ns) <= 501
    assert (bars.first[:3], bars.last[:3]) == ([0, 3, 24], [2, 23, 44])
    assert (bars.ns[:3], bars.busy_ns[:3]) == ([1000, 113, 134], [None, 13, 34])
    assert bars.last[-1] == 10_002
    few = step_bars(msgspec.structs.replace(demo.report.devices[0], steps=steps[:500]), 500)
    assert (few.first, few.last, few.joined) == ([*range(3, 503)], [*range(3, 503)], 1)
    assert few.ns == [100 + n for n in range(3, 503)]


# --- bounds -------------------------------------------------------------------------------------------------


def boundless() -> Profile:
    """Names that are all long and all different, deep paths, and many streams, threads, devices and steps."""
    p = Profile()
    number = itertools.count()
    for step in range(25):
        at = step * 100_000
        p.step(step, at, at + 99_000)
        for depth in range(60):
            p.frame(f"{WIDE}({next(number)}): at {depth}", at + depth, at + 90_000 - depth)
        for place in range(20):
            begin, name = at + 1_000 + place * 4_000, WIDE + str(next(number))
            p.operator(f"{name}::op", begin, begin + 2_000, inputs=[(name, [[place] * 50])], thread=100 + place)
            p.launch(
                *(begin + 100, begin + 200, begin + 300, begin + 1_500 + step),
                name=name,
                stream=place * 7 + step,
                thread=100 + place,
                device=place % 20,
            )
    return p


def test_no_profile_makes_a_page_of_more_than_two_million_bytes(folder: Path) -> None:
    path = boundless().write(folder / "boundless.json.gz")
    shown = page_of(explained(path, window="all"))
    assert len(shown.encode()) < MOST_BYTES
    for told in ("busier devices are in the text report only", "streams, with less work, are not drawn"):
        assert told in shown
    for told in ("too many names", "more with less time each"):
        assert told in shown


def test_a_page_says_what_its_bars_are(demo: Explained) -> None:
    steps = [StepTime(number=n, ns=100, busy_ns=50, startup=False) for n in range(10_000)]
    device = msgspec.structs.replace(demo.report.devices[0], steps=steps)
    many = msgspec.structs.replace(demo.report, devices=[device])
    assert "each bar is the mean of up to 20 steps" in page_of(Explained(many, demo.parts))
    assert "each bar is the mean" not in page_of(demo)


# --- colours ------------------------------------------------------------------------------------------------


def code() -> str:
    return "\n".join(path.read_text() for path in (ROOT / "src/gpuwhy").rglob("*.py"))


def test_every_account_that_the_code_names_has_a_colour_of_its_family() -> None:
    known = set(re.findall(r'"([a-z/_]+)": "#', static("colours.js")))
    named = set(re.findall(r"\b(?:busy|idle)/[a-z_]+", code())) | {"/".join(one.split("/")[:2]) for one in MEANING}
    named.discard("busy/co")  # the beginning of some
    assert len(named) > 25
    assert named <= known
    phases = set(re.findall(r'\("([a-z_]+)(?:/\w+)?", [\[_ek]', (ROOT / "src/gpuwhy/run/phases.py").read_text()))
    assert {"start_up", "steady", "checkpoint"} <= phases
    assert phases <= known


@pytest.mark.parametrize("scheme", [0, 1, 2], ids=["light", "chosen dark", "preferred dark"])
def test_text_stands_out_from_what_it_is_on(scheme: int) -> None:
    blocks = re.findall(r"{ (--ink[^}]+)}", static("page.css"))
    colours = dict(re.findall(r"--(\w+): (#\w{6})", blocks[scheme]))
    assert len(blocks) == 3
    assert blocks[1].strip() == blocks[2].strip()
    for ink, ground in itertools.product(("ink", "soft", "mark", "warn", "fail"), ("paper", "panel")):
        assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)


def contrast(one: str, other: str) -> float:
    """By WCAG 2.1: 4.5 at least for text of usual size."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def static(name: str) -> str:
    return HERE.joinpath("static", name).read_text("utf-8")


SCRIPTS = (*LIBRARY, *OWN)


# --- what may run -------------------------------------------------------------------------------------------


class Parsed(HTMLParser):
    """The elements of a page, and what is in its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.policy = ""
        self.text = ""
        self.last: dict[str, str | None] | None = None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes |= {name for name, _ in attrs}
        self.last = dict(attrs) if tag == "script" else None
        if dict(attrs).get("http-equiv") == "Content-Security-Policy":
            self.policy = dict(attrs)["content"] or ""

    def handle_data(self, data: str) -> None:
        if self.last is None:
            self.text += data
        else:
            self.scripts.append((self.last, data))
            self.last = None


def test_the_policy_lets_the_scripts_of_the_page_run_and_no_others(demo: Explained) -> None:
    found = Parsed(page_of(demo))
    run = [text for attributes, text in found.scripts if attributes.get("type") != "application/json"]
    assert len(run) == len(SCRIPTS)
    rules = dict(rule.strip().split(" ", 1) for rule in found.policy.split(";"))
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in run]
    assert rules["script-src"].split() == [f"'sha256-{one}'" for one in hashes]
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert not {"src", "href"} & (found.attributes - {"href"})


def strangers(folder: Path) -> dict[str, Explained]:
    """What was found in a profile and a run whose texts are all hostile."""
    path = hostile_profile().write(folder / f"{HOSTILE[3]}{HOSTILE[5]}.json")
    odd = os.fsdecode(os.fsencode(folder) + b"/not UTF-8 \xff.json")
    Path(odd).write_bytes(path.read_bytes())
    return {"profile": explained(path), "file name": explained(odd), "run": explain_run(hostile_run(folder))}


@pytest.mark.parametrize("which", ["profile", "file name", "run"])
def test_no_text_of_a_profile_becomes_an_element_or_a_script(which: str, folder: Path, demo: Explained) -> None:
    page = page_of(strangers(folder)[which])
    found, harmless = Parsed(page), Parsed(page_of(demo))
    assert found.tags["script"] == page.count("<script") - in_library() == len(SCRIPTS) + 1
    assert page.count("</script") == len(SCRIPTS) + 1
    assert found.tags.keys() <= harmless.tags.keys() | {"pre"}
    assert not [name for name in found.attributes if name.startswith("on") or name == "src"]
    (data,) = [text for attributes, text in found.scripts if attributes.get("type") == "application/json"]
    assert not set(data) & set("<>&\u2028\u2029")
    assert json.loads(data).keys() == {"devices", "step_ns", "together", "run"}
    assert not set(page) & set("\x00\x1b\u2028\u2029\u202e")
    if which == "profile":
        for text in (HOSTILE[0], HOSTILE[1], HOSTILE[5]):
            assert text in found.text  # shown, as it is written
            assert text in json.dumps(json.loads(data))


def in_library() -> int:
    """Mentions of a script within the scripts of the page."""
    return sum(HERE.joinpath(*name.split("/")).read_text("utf-8").count("<script") for name in SCRIPTS)


def test_without_jinja_the_reason_is_told(demo: Explained, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from gpuwhy.errors import GpuwhyError

    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(GpuwhyError, match="needs Jinja") as told:
        render(demo)
    assert told.value.hint == "pip install 'gpuwhy[report]'"


@needs_shared
def test_what_is_called_together_is_more_than_one_mend_and_a_roofline_has_points() -> None:
    """A profile of two mends of which one asks for more samples, and whose operators have no shapes."""
    traces = SHARED / "traces/facebookresearch__HolisticTraceAnalysis/tests/data"
    found = explained(str(traces / "df_index_resolver/df_index_resolver.json.gz"))
    assert found.report.together is not None
    assert len(found.report.together.mends) == 1
    text = render(found)
    assert "together</h3>" not in text
    assert "mends together" not in text
    assert 'id="waterfall"' not in text
    assert "No roofline" in text
    assert '-roofline"' not in text


def test_of_several_mends_together_is_said_how_many(demo: Explained) -> None:
    assert demo.report.together is not None
    count = len(demo.report.together.mends)
    assert count > 1
    assert f"{count} of them together</h3>" in render(demo)
