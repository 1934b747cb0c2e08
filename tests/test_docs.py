"""The documentation: nothing that the code can say is left untold, examples are real, and links lead somewhere."""

from __future__ import annotations

import ast
import io
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import gpuwhy
from gpuwhy import findings
from gpuwhy.ledger import balance
from gpuwhy.ledger.accounts import UNKNOWN, within
from gpuwhy.ledger.classes import ANNOTATIONS, COPIES, FRAMES, KERNELS, OPERATORS, OVERHEAD, RUNTIME, SPECIAL_BY_KIND
from gpuwhy.ledger.partition import basis
from gpuwhy.reports.text import render
from gpuwhy.reports.words import CAUSE, MEANING
from gpuwhy.sources.open import Opened
from gpuwhy.steps import Selection, window
from gpuwhy.timeline import CallKind

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
DEMO = ROOT / "src/gpuwhy/data/demo.pt.trace.json.gz"

FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


@cache
def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return FENCE.sub("", page.read_text())


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def sections(page: str) -> dict[str, str]:
    """The text under each heading that is one name in backticks."""
    parts = re.split(r"^#{2,3} (.+)$", prose(DOCS / page), flags=re.MULTILINE)
    pairs = zip(parts[1::2], parts[2::2], strict=True)
    return {heading[1:-1]: text for heading, text in pairs if re.fullmatch(r"`[^`]+`", heading)}


# --- Links ------------------------------------------------------------------------------------------------------------


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors that GitHub, and the site, give to a page's headings."""
    found: list[str] = []
    for heading in HEADING.findall(prose(page)):
        text = LINK.sub(lambda link: link.group()[1:].partition("](")[0], heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.append(f"{slug}-{found.count(slug)}" if slug in found else slug)
    return frozenset(found)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.name)
def test_links_and_anchors_resolve(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if page.parent == DOCS:
            assert file.parent == DOCS, f"{target}: the site holds only what is in docs/"
        if anchor:
            assert anchor in anchors(file), target


def test_every_page_is_in_the_navigation() -> None:
    named = re.findall(r"^ +- .*?([\w.]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(named) == [page.name for page in PAGES]


# --- Accounts and causes ----------------------------------------------------------------------------------------------


def accounts_of_the_code() -> set[str]:
    busy = {label for table in (OPERATORS, KERNELS, COPIES) for label, _ in table} | {"memset", "other"}
    idle = {label for table in (RUNTIME, OVERHEAD, ANNOTATIONS, FRAMES) for label, _ in table}
    return {*(f"busy/{label}" for label in busy), *(f"idle/{label}" for label in idle), *UNKNOWN, *MEANING}


def causes_of_the_code() -> dict[str, str]:
    """Each name that is given as `cause` to anything in the code, with a module that does so."""
    trees = {path: ast.parse(path.read_text()) for path in (ROOT / "src/gpuwhy").rglob("*.py")}
    place = {}
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                names = [argument.arg for argument in node.args.args if argument.arg != "self"]
            elif isinstance(node, ast.ClassDef):
                fields = [line.target for line in node.body if isinstance(line, ast.AnnAssign)]
                names = [target.id for target in fields if isinstance(target, ast.Name)]
            else:
                continue
            if "cause" in names:
                place[node.name] = names.index("cause")
    found = dict.fromkeys(CAUSE.values(), "words.py")
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in place:
                given = [word.value for word in node.keywords if word.arg == "cause"]
                for value in given or node.args[place[name] : place[name] + 1]:
                    if isinstance(value, ast.Constant) and isinstance(value.value, str):
                        found[value.value] = path.name
    return found


def test_every_account_has_a_section() -> None:
    assert sections("accounts.md").keys() == accounts_of_the_code()


@pytest.mark.parametrize("account", sorted(MEANING))
def test_each_account_is_told_with_proof_example_mend_and_what_it_is_not(account: str) -> None:
    text = " ".join(sections("accounts.md")[account].split())
    for part in ("**Proven by**", "xample**", "**Mended", "**Not**"):
        assert part in text


def test_every_cause_has_a_section() -> None:
    found = causes_of_the_code()
    assert {"input", "precision", "throttling", "healthy"} <= found.keys()  # one of each place that names causes
    assert sections("causes.md").keys() == found.keys()


# --- Figures ----------------------------------------------------------------------------------------------------------

EXAMPLE = re.compile(
    r"`((?:tests|src)/\S+\.json\.gz)`.*?([\d.,]+) of ([\d.,]+) ms a\s+step\s+\(([\d.]+) %\s+of\s+the\s+window\)",
    re.DOTALL,
)


def examples() -> list[tuple[str, ...]]:
    return [(name, *found) for name, text in sections("accounts.md").items() for found in EXAMPLE.findall(text)]


def test_most_accounts_have_an_example_in_this_repository() -> None:
    assert len(examples()) > len(MEANING) / 2


@pytest.mark.parametrize(("account", "file", "ms", "step", "share"), examples())
def test_examples_of_accounts_are_what_gpuwhy_says(account: str, file: str, ms: str, step: str, share: str) -> None:
    """To the digits that are told; of frames the one with most time."""
    timeline = gpuwhy.load(str(ROOT / file))
    chosen = window(timeline, 0, Selection())
    assert chosen is not None
    assert chosen.steps is not None
    ledger = balance(basis(timeline), 0, chosen)
    leaves = [int(ns) for name, ns in zip(ledger.accounts, ledger.ns, strict=True) if within(name, account)]
    assert f"{100 * max(leaves) / ledger.window_ns:.1f}" == share
    for told, ns in ((ms, max(leaves)), (step, ledger.window_ns)):
        digits = len(told.partition(".")[2])
        assert f"{ns / len(chosen.steps) / 1e6:,.{digits}f}" == told


def test_measured_gains_are_those_of_the_tables() -> None:
    rows = [[cell.strip() for cell in line.split("|")] for line in (DOCS / "gains.md").read_text().splitlines()]
    measured = {(row[1], row[3]) for row in rows if len(row) > 3}
    told = re.findall(r"([\d.]+\s\[[\d., \n]+\])\s\(`(\w+)`\)", prose(DOCS / "causes.md"))
    assert len(told) > 15
    for figure, name in told:
        assert (name, " ".join(figure.split())) in measured


@pytest.mark.parametrize("page", ["explain.md", "index.md"])
def test_what_is_shown_is_the_real_report(page: str) -> None:
    paper = io.StringIO()
    render(gpuwhy.explain(str(DEMO)), Console(file=paper, width=80))
    lines = [line.rstrip() for line in paper.getvalue().splitlines()]
    lines[0] = lines[0][lines[0].index(DEMO.name) :]  # the path before the name is this machine's
    shown = blocks(page, "text")
    assert shown
    for block in shown:
        assert block.rstrip("\n") in "\n".join(lines)


# --- Examples of code -------------------------------------------------------------------------------------------------


def code(begins: str) -> dict[str, Any]:
    """What a block of extending.md defines."""
    (text,) = (block for block in blocks("extending.md", "python") if block.startswith(begins))
    defined: dict[str, Any] = {"__name__": "example"}
    exec(compile(text, "extending.md", "exec"), defined)
    return defined


def test_the_example_of_an_account_and_a_rule_works(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = (block for block in blocks("extending.md", "python") if block.startswith('("logging"'))
    name, pattern = ast.literal_eval(line)
    monkeypatch.setitem(SPECIAL_BY_KIND, CallKind.PYTHON, [(name, re.compile(pattern)), *FRAMES])
    rule = code('"""The loop writes its log')["logging"]
    monkeypatch.setattr(findings, "RULES", (*findings.RULES, rule))
    tests = [value for key, value in code('"""A log that').items() if key.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test(folder)


def test_the_example_of_a_reader_and_a_form_works(tmp_path: Path) -> None:
    file = tmp_path / "kernels.txt"
    (text,) = blocks("extending.md", "text")
    file.write_text(text + "not a line\n")
    timeline = code('"""Launches and their')["read"](Opened(str(file)))
    page = code('"""The ledger as comma')["render"](gpuwhy.explain(timeline))
    # From 3,000 to 15,000: the gap before the second kernel begins after the end of its launch.
    assert page.splitlines() == [
        "rank,device,account,ns,share_of_window",
        "0,0,busy/matmul,6000,0.500000",
        "0,0,busy/reduction,3000,0.250000",
        "0,0,idle/device,3000,0.250000",
    ]
    assert timeline.sources[0].malformed == 1
