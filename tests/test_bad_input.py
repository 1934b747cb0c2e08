"""Files come from strangers: whatever is in them, one clear line, the right exit status, bounded time and memory."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import lzma
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from events import Profile

import gpuwhy
from gpuwhy.__main__ import main
from gpuwhy.errors import GpuwhyError
from gpuwhy.sources import open as opening

DEMO = Path(gpuwhy.__file__).parent / "data" / "demo.pt.trace.json.gz"
NS = 1_000_000
SECONDS = 30
"""More than any of the large inputs takes on a slow machine; what is quadratic in them takes minutes."""
MEMORY = 3 << 30
"""Address space of a run that must not need much."""


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """The one line on stderr, held to the manner of all of them: printable, with at most one line of advice."""
        lines = self.err.splitlines()
        assert 1 <= len(lines) <= 2, self.err
        assert lines[0].startswith("gpuwhy: ")
        assert len(lines) == 1 or lines[1].startswith("  → ")
        assert all(line.isprintable() for line in lines)
        assert "internal error" not in self.err
        return self.err


@pytest.fixture
def explain(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Runs `gpuwhy explain …` in this process; nothing may be written beside the files."""

    def run(*arguments: str | int | Path) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["gpuwhy", "explain", *map(str, arguments)])
        folders = {Path(a).parent for a in sys.argv[2:] if os.path.isabs(a) and "\0" not in a}
        before = [(folder, set(os.listdir(folder))) for folder in folders if folder.is_dir()]
        asked = {Path(a).name for a in sys.argv}
        code: Any = 0
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code
        assert all(set(os.listdir(folder)) - names <= asked for folder, names in before)
        return Outcome(code or 0, *capsys.readouterr())

    return run


Explain = Callable[..., Outcome]


def process(*arguments: str, limit: bool = False, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Runs `gpuwhy …` as a process of its own, with `limit` in little memory."""

    def restrict() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    options.setdefault("stdin", subprocess.DEVNULL)
    if "input" in options:
        del options["stdin"]
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    return subprocess.run(
        [sys.executable, "-m", "gpuwhy", *arguments],
        check=False,
        timeout=120,
        preexec_fn=restrict if limit else None,
        **options,
    )


def said(done: subprocess.CompletedProcess[bytes]) -> Outcome:
    return Outcome(done.returncode, (done.stdout or b"").decode(), (done.stderr or b"").decode())


def small(steps: int = 5) -> Profile:
    """A healthy little profile with steps."""
    profile = Profile()
    for i in range(steps):
        at = 100_000 * i
        profile.step(i, at, at + 99_000)
        profile.operator("aten::mm", at + 1_000, at + 40_000)
        profile.launch(at + 2_000, at + 8_000, at + 10_000, at + 60_000)
    return profile


def of_events(path: Path, events: list[str], head: str = "") -> Path:
    path.write_text('{"schemaVersion": 1, ' + head + '"traceEvents": [\n' + ",\n".join(events) + "\n]}\n")
    return path


def event(cat: str, name: str, pid: Any, tid: Any, ts: Any, dur: Any, **args: Any) -> str:
    """One event as text; times are microseconds, written as they are."""
    return (
        f'{{"ph": "X", "cat": "{cat}", "name": "{name}", "pid": {pid}, "tid": {tid}, "ts": {ts}, "dur": {dur}, '
        f'"args": {json.dumps(args)}}}'
    )


def pair(number: int, at: int, thread: Any = 1, process: Any = 1, device: Any = 0, stream: Any = 7) -> list[str]:
    """A launch and its kernel."""
    return [
        event("cuda_runtime", "cudaLaunchKernel", process, thread, at, 1, correlation=number),
        event("kernel", "k", device, stream, at + 2, 3, correlation=number, device=device, stream=stream),
    ]


# ---- Not a profile at all ----


def test_a_missing_file_is_named(explain: Explain, tmp_path: Path) -> None:
    outcome = explain(tmp_path / "no.json")
    assert outcome.code == 2
    assert outcome.message == f"gpuwhy: {tmp_path}/no.json: no such file\n"


def test_a_directory_gets_advice(explain: Explain, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    outcome = explain(tmp_path / "in")
    assert outcome.code == 2
    assert "is a directory" in outcome.message
    assert "*.json.gz" in outcome.message


@pytest.mark.parametrize("time", ["0ms", "1ns", "999999999999s", "-1ms", "nan", "34"])
def test_what_is_no_step_time_is_said_so(explain: Explain, time: str) -> None:
    outcome = explain(Path(__file__).parent / "data" / "graph_decode.json.gz", f"--step-time={time}")
    assert outcome.code == 2
    assert outcome.message


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 5000])
def test_what_is_no_path_is_said_so(explain: Explain, path: str) -> None:
    outcome = explain(path)
    assert outcome.code == 2
    assert "no such file" in outcome.message or "not a path" in outcome.message or "too long" in outcome.message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_said_so(explain: Explain, tmp_path: Path) -> None:
    path = small().write(tmp_path / "p.json")
    path.chmod(0)
    assert "permission denied" in explain(path).message


def test_a_read_error_is_said_so(explain: Explain) -> None:
    """/proc/self/mem opens, and reading it from its start fails, for root too."""
    if not os.path.exists("/proc/self/mem"):
        pytest.skip("no /proc")
    outcome = explain("/proc/self/mem")
    assert outcome.code == 2
    assert "/proc/self/mem: " in outcome.message


FOREIGN = {
    "empty": (b"", "is empty"),
    "blank": (b" \n\t ", "is empty"),
    "much white space": (b" " * 10_000, "the file is empty"),
    "text": (b"hello\n", "is not JSON"),
    "garbage": (random.Random(1).randbytes(10_000).replace(b"\x1f\x8b", b""), "is not JSON"),
    "zeros": (bytes(10_000), "is not JSON"),
    "a number": (b"17", "is not JSON"),
    "a dict of another kind": (b'{"a": 1, "b": [1, 2]}', "without traceEvents; its keys are 'a', 'b'"),
    "an empty dict": (b"{}", "without traceEvents"),
    "traceEvents that is no list": (b'{"traceEvents": {"a": 1}}', "is not a list"),
    "a list of numbers": (b"[1, 2, 3]", "not objects"),
    "nested brackets": (b"[" * 100_000 + b"]" * 100_000, "without events"),
    "a trace of Chrome": (b'[{"ph": "X", "cat": "v8", "name": "f", "ts": 1, "dur": 2}]', "not a PyTorch profile"),
    "an empty trace": (b'{"traceEvents": []}', "none of its 0 events"),
    "sqlite": (b"SQLite format 3\x00" + bytes(84), "an SQLite database (Nsight Systems exports are)"),
    "xplane": (b"\x0a\x20\x08\x01\x12\x0b/host:CPU\x00\x01\x02" + bytes(20), "an XLA profile (xplane.pb)"),
    "pickle": (b"\x80\x04\x95\x10\x00\x00\x00", "a pickle"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(20), "is zstd data"),
    "xz": (lzma.compress(b"{}"), "is xz data"),
    "bzip2": (bz2.compress(b"{}"), "is bzip2 data"),
    "gzip within gzip": (gzip.compress(gzip.compress(b"{}")), "is gzip data"),
    "gzip of text": (gzip.compress(b"hello"), "is not JSON"),
    "gzip of nothing": (gzip.compress(b""), "is empty"),
    "gzip's first bytes": (b"\x1f\x8b", "cut short"),
    "gzip's head and garbage": (b"\x1f\x8b\x08\x00" + b"\xff" * 100, "gzip data is corrupt"),
    "UTF-16": (small().text().encode("utf-16"), "UTF-16 text"),
    "Parquet": (b"PAR1" + bytes(20), "is Parquet data"),
    "half a zip": (b"PK\x03\x04" + bytes(100), "a damaged timeline file"),
}


@pytest.mark.parametrize(("content", "words"), FOREIGN.values(), ids=FOREIGN.keys())
def test_what_is_no_profile_is_named_for_what_it_is(
    explain: Explain, tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    outcome = explain(path)
    assert outcome.code == 2
    assert words in outcome.message
    assert not outcome.out


@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero"])
def test_devices_are_no_profiles(explain: Explain, device: str) -> None:
    assert explain(device).code == 2


def test_a_profile_without_gpu_work_is_told_what_to_record(explain: Explain, tmp_path: Path) -> None:
    profile = Profile()
    profile.operator("aten::mm", 0, 100)
    outcome = explain(profile.write(tmp_path / "p.json"))
    assert outcome.code == 2
    assert "no GPU work" in outcome.message
    assert "ProfilerActivity.CUDA" in outcome.message


def test_operations_of_no_length_are_no_work(explain: Explain, tmp_path: Path) -> None:
    profile = Profile()
    for i in range(20):
        profile.launch(10 * i, 10 * i, 10 * i, 10 * i)
    outcome = explain(profile.write(tmp_path / "p.json"))
    assert outcome.code == 2 or "0.0 %" in outcome.out


# ---- Damaged profiles: what is there is explained, and the damage is told ----


def test_json_cut_anywhere_is_explained_as_far_as_it_goes(tmp_path: Path) -> None:
    text = small().text()
    ledgers = 0
    for at in range(0, len(text) - 2, 37):
        path = tmp_path / "cut.json"
        path.write_text(text[:at])
        try:
            report = gpuwhy.explain(str(path))
        except GpuwhyError as error:
            assert error.exit_code == 2  # noqa: PT017
            continue
        ledgers += check_sums(report)
        told = next(check for check in report.trust if check.check == "recording_complete")
        assert told.level == "warn"
        assert "the JSON ends" in told.detail
    assert ledgers > 50


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.99, 0.9999])
def test_gzip_cut_short_is_explained_as_far_as_it_goes(explain: Explain, tmp_path: Path, share: float) -> None:
    whole = DEMO.read_bytes()
    path = tmp_path / "cut.json.gz"
    path.write_bytes(whole[: int(share * len(whole))])
    outcome = explain(path)
    if outcome.code == 2:
        assert share < 0.6  # the device's part comes last
        assert "cut short" in outcome.message
    else:
        assert "the gzip data is cut short" in " ".join(outcome.out.split())


def test_gzip_corrupt_in_the_middle_is_explained_up_to_there(explain: Explain, tmp_path: Path) -> None:
    data = bytearray(DEMO.read_bytes())
    at = len(data) * 9 // 10
    data[at : at + 100] = b"\xff" * 100
    path = tmp_path / "corrupt.json.gz"
    path.write_bytes(data)
    outcome = explain(path)
    assert outcome.code in (0, 3)
    assert "corrupt" in outcome.out or "broken" in outcome.out


def test_gzip_members_in_a_row_are_one_file(tmp_path: Path) -> None:
    text = small().text().encode()
    pieces = [text[i : i + 100] for i in range(0, len(text), 100)]
    path = tmp_path / "p.json.gz"
    path.write_bytes(b"".join(map(gzip.compress, [b"", *pieces, b""])) + bytes(500))
    whole = tmp_path / "whole.json"
    whole.write_bytes(text)
    assert gpuwhy.explain(str(path)).devices == gpuwhy.explain(str(whole)).devices


def test_a_hundred_thousand_tiny_gzip_members_are_read_in_seconds(tmp_path: Path) -> None:
    path = tmp_path / "p.json.gz"
    path.write_bytes(gzip.compress(small().text().encode()) + gzip.compress(b"") * 100_000)
    began = time.monotonic()
    gpuwhy.explain(str(path))
    assert time.monotonic() - began < SECONDS


def test_other_data_after_the_gzip_data_is_told(explain: Explain, tmp_path: Path) -> None:
    path = tmp_path / "p.json.gz"
    path.write_bytes(gzip.compress(small().text().encode()) + b"something else")
    assert "other data follows the gzip data" in " ".join(explain(path).out.split())


@pytest.mark.parametrize("filler", [b" ", b'{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1},'])
def test_a_gzip_bomb_is_refused(explain: Explain, tmp_path: Path, filler: bytes) -> None:
    path = tmp_path / "bomb.json.gz"
    packer = gzip.GzipFile(path, "wb", 9)
    packer.write(b'{"traceEvents": [')
    for _ in range(300):
        packer.write(filler * ((1 << 20) // len(filler)))
    packer.close()
    began = time.monotonic()
    outcome = explain(path)
    assert outcome.code == 2
    assert "expands more than 200 times" in outcome.message
    assert time.monotonic() - began < SECONDS


def test_a_file_that_shrinks_while_it_is_read_is_explained_as_far_as_it_goes(
    explain: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.json"
    path.write_bytes(gzip.decompress(DEMO.read_bytes()))
    size = path.stat().st_size
    monkeypatch.setattr(opening, "CHUNK", 1 << 16)
    scan = gpuwhy.sources.load.scan

    def shrinking(chunks: Iterator[bytes], **options: Any) -> Any:
        def cut() -> Iterator[bytes]:
            for number, chunk in enumerate(chunks):
                if number == 10:
                    os.truncate(path, size * 9 // 10)
                yield chunk

        return scan(cut(), **options)

    monkeypatch.setattr(gpuwhy.sources.load, "scan", shrinking)
    outcome = explain(path)
    assert outcome.code in (0, 3)
    assert "the JSON ends" in " ".join(outcome.out.split())


# ---- Values that no profiler writes ----

ODD_TIMES = [
    "NaN", "Infinity", "-Infinity", "null", '"12"', '"x"', "true", "[]", "{}", "-5", "-0.0001", "1e300", "-1e300",
    "1e-300", "9223372036854775807", "-9223372036854775808", "9223372036854775.807", "-9223372036854775.808",
    "1e18", "-1e18", "4611686018427387.9", "0", "-0", "1" * 400, "0." + "1" * 400, "86400000000", "86400000001",
    '"\\ud800"',
]  # fmt: skip


@pytest.mark.parametrize("key", ["ts", "dur"])
@pytest.mark.parametrize("category", ["kernel", "cpu_op", "cuda_runtime", "user_annotation", "cuda_sync"])
def test_an_odd_time_never_breaks_the_ledger(tmp_path: Path, key: str, category: str) -> None:
    for value in ODD_TIMES:
        profile = small()
        times = {"ts": "200.5", "dur": "7"} | {key: value}
        profile.raw(
            f'"ts": {times["ts"]}, "dur": {times["dur"]}', cat=category, name="odd", pid=0, tid=7, args={"stream": 7}
        )
        report = gpuwhy.explain(str(profile.write(tmp_path / "p.json")))
        check_sums(report)
        check_sums(gpuwhy.explain(str(tmp_path / "p.json"), window="all"))


@pytest.mark.parametrize("value", ODD_TIMES)
def test_a_profile_of_odd_times_only_never_breaks_the_ledger(explain: Explain, tmp_path: Path, value: str) -> None:
    """Every event has the odd value as its start, then as its duration."""
    for ts, dur in ((value, "7"), ("3", value)):
        rows = [
            event("cpu_op", "aten::mm", 1, 1, ts, dur),
            event("cuda_runtime", "cudaLaunchKernel", 1, 1, ts, dur, correlation=1),
            event("kernel", "k", 0, 7, ts, dur, correlation=1, device=0, stream=7),
        ]
        outcome = explain(of_events(tmp_path / "p.json", rows))
        assert outcome.code in (0, 2, 3)
        if outcome.code == 2:
            assert outcome.message


def test_starts_at_both_ends_of_time_do_not_overflow(tmp_path: Path) -> None:
    path = small().write(tmp_path / "p.json")
    text = path.read_text().replace(
        '"traceEvents": [',
        '"traceEvents": ['
        + ",".join(
            event("kernel", "far", 0, 7, ts, 5, device=0, stream=7)
            for ts in ("9223372036854775", "-9223372036854775", "4e15", "-4e15", "2e15", "-2e15")
        )
        + ",",
    )
    path.write_text(text)
    for window in (None, "all"):
        check_sums(gpuwhy.explain(str(path), window=window))


@pytest.mark.parametrize("base", ["1e300", str(10**30), "-1", "null", '"x"', "true", str(2**63), "[" * 400 + "]" * 400])
def test_an_odd_base_time_is_no_base_time(explain: Explain, tmp_path: Path, base: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(
        small().text().replace('"baseTimeNanoseconds": 1760000000000000000', f'"baseTimeNanoseconds": {base}')
    )
    other = small().write(tmp_path / "q.json")
    for files in ([path], [path, other], [path, path]):
        outcome = explain(*files, "--json")
        assert outcome.code in (0, 3)
        assert json.loads(outcome.out)["devices"][0]["window_ns"] > 0


def test_files_whose_clocks_lie_centuries_apart_are_refused(explain: Explain, tmp_path: Path) -> None:
    paths = []
    for name, ts, base in (("a", -4 * 10**15, 0), ("b", 4 * 10**15, 4 * 10**18)):
        head = f'"baseTimeNanoseconds": {base}, '
        paths.append(of_events(tmp_path / f"{name}.json", pair(1, ts) + pair(2, ts + 100), head))
        assert explain(paths[-1]).code in (0, 3)
    outcome = explain(*paths)
    assert outcome.code == 2
    assert "centuries apart" in outcome.message


@pytest.mark.parametrize(
    "value", ["-1", "9223372036854775807", "1" * 30, '"7"', '"x"', "null", "1.5", "[]", "-9223372036854775808"]
)
@pytest.mark.parametrize("key", ["device", "stream", "correlation", "External id", "bytes", "graph node id"])
def test_an_odd_id_never_breaks_the_ledger(tmp_path: Path, key: str, value: str) -> None:
    text = small().text()
    odd = event("kernel", "odd", 0, 7, 250, 7, ODD=1).replace('"ODD": 1', f'"{key}": {value}')
    path = tmp_path / "p.json"
    path.write_text(text.replace("[\n", "[\n" + odd + ",\n", 1))
    check_sums(gpuwhy.explain(str(path)))


@pytest.mark.parametrize("key", ["name", "cat", "ph", "pid", "tid", "args"])
def test_fields_of_another_kind_never_break_the_ledger(tmp_path: Path, key: str) -> None:
    for value in (
        "null",
        "7",
        "1.5",
        "[]",
        "{}",
        '""',
        '"\\u0000\\n\\u001b[31m"',
        '"\\ud800"',
        "true",
        '{"a": [1, {}]}',
    ):
        fields = {"ph": '"X"', "cat": '"kernel"', "name": '"k"', "pid": "0", "tid": "7", "args": "{}"} | {key: value}
        odd = "{" + ", ".join(f'"{k}": {v}' for k, v in fields.items()) + ', "ts": 250, "dur": 3}'
        path = tmp_path / "p.json"
        path.write_text(small().text().replace("[\n", "[\n" + odd + ",\n", 1))
        check_sums(gpuwhy.explain(str(path)))


def test_repeated_keys_and_control_characters_are_read(explain: Explain, tmp_path: Path) -> None:
    text = small().text().replace('"ph": "X"', '"ph": "i", "ph": "X", "x": "\x01\x7f"')
    path = tmp_path / "p.json"
    path.write_text(text)
    assert explain(path).code in (0, 3)


def test_events_in_any_order_give_one_ledger(tmp_path: Path) -> None:
    profile = small(9)
    whole = gpuwhy.explain(str(profile.write(tmp_path / "p.json")))
    random.Random(7).shuffle(profile._events)
    mixed = gpuwhy.explain(str(profile.write(tmp_path / "p.json")))
    assert mixed.devices == whole.devices


def test_an_event_nested_a_hundred_thousand_deep_ends_the_reading(explain: Explain, tmp_path: Path) -> None:
    deep = '{"a":' * 100_000 + "1" + "}" * 100_000
    path = tmp_path / "p.json"
    path.write_text(small().text().replace("\n]}", ",\n" + deep + "\n]}"))
    outcome = explain(path)
    assert outcome.code in (0, 3)
    assert "nested more than 512 deep" in " ".join(outcome.out.split())


@pytest.mark.parametrize("depth", [100, 400, 500])
def test_a_deep_header_is_no_crash(explain: Explain, tmp_path: Path, depth: int) -> None:
    path = tmp_path / "p.json"
    path.write_text(small().text().replace("{", '{"deep": ' + "[" * depth + "]" * depth + ", ", 1))
    outcome = explain(path, "--save-timeline", tmp_path / "t.gpuwhy")
    if outcome.code == 2:
        assert depth > 400
        assert "nested too deep" in outcome.message
    else:
        assert explain(tmp_path / "t.gpuwhy").out.splitlines()[2:] == outcome.out.splitlines()[2:]


ESCAPES = "\x1b[31m\x1b]0;title\x07\r\n[bold]red[/bold] :smile: \u202e\x9b2J\x00"


def test_names_reach_no_terminal_raw(explain: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Escape sequences, markup and line ends in every name, even in calls that block and in frames."""
    profile = Profile()
    for i in range(6):
        at = NS * i
        profile.step(i, at, at + 900_000)
        profile.frame("train.py(1): f" + ESCAPES, at + 1_000, at + 890_000)
        profile.operator("aten::mm" + ESCAPES, at + 2_000, at + 200_000)
        profile.launch(at + 3_000, at + 8_000, at + 10_000, at + 30_000, name="kernel" + ESCAPES)
        profile.runtime("cudaDeviceSynchronize" + ESCAPES, at + 210_000, at + 700_000)
        profile.launch(at + 702_000, at + 705_000, at + 710_000, at + 730_000, name="kernel" + ESCAPES)
    text = profile.text().replace("NVIDIA H200", json.dumps("H200" + ESCAPES)[1:-1])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")  # so that there is room for the names
    path = Path("p\x1b[31m\n[red]x.json")
    path.write_text(text)
    outcome = explain(path, "--top", 10)
    assert outcome.code in (0, 3)
    assert outcome.out.replace("\n", "").isprintable()
    assert "[bold]red[/bold]" in outcome.out  # as it stands in the file
    assert json.loads(explain(path, "--json").out)


def test_a_file_name_that_is_no_text_is_shown(explain: Explain, tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.json")
    try:
        small().write(Path(path))
    except OSError:
        pytest.skip("this file system wants text")
    assert explain(path).code in (0, 3)
    assert json.loads(explain(path, "--json").out)
    assert explain(path + "x").code == 2


# ---- Large in one direction: time and memory stay in proportion ----


def _threads(count: int) -> list[str]:
    return [
        row for i in range(count) for row in (event("cpu_op", "aten::mm", 1, i, 10 * i, 5), *pair(i, 10 * i, thread=i))
    ]


def _backward(count: int) -> list[str]:
    name = "autograd::engine::evaluate_function: MmBackward0"
    return [row for i in range(count) for row in (event("cpu_op", name, 1, i, 10 * i, 5), *pair(i, 10 * i, thread=i))]


def _processes(count: int) -> list[str]:
    return [
        row
        for i in range(count)
        for row in (event("cpu_op", "aten::mm", i, i, 10 * i, 5), *pair(i, 10 * i, thread=i, process=i))
    ]


def _devices(count: int) -> list[str]:
    return [
        row for i in range(count) for row in (*pair(2 * i, 10 * i, device=i), *pair(2 * i + 1, 10 * i + 5, device=i))
    ]


def _streams(count: int) -> list[str]:
    return [row for i in range(count) for row in pair(i, 10 * i, stream=i)]


def _one_correlation(count: int) -> list[str]:
    return [row for i in range(count) for row in pair(7, 10 * i)]


def _steps(count: int) -> list[str]:
    return [
        row
        for i in range(count)
        for row in (event("user_annotation", f"ProfilerStep#{i}", 1, 1, 10 * i, 9.5), *pair(i, 10 * i + 1))
    ]


def _frames(count: int) -> list[str]:
    return [
        row
        for i in range(count)
        for row in (event("python_function", f"f{i}.py(1): g", 1, 1, 10 * i, 9.5), *pair(i, 10 * i + 1))
    ]


def _frames_and_steps(count: int) -> list[str]:
    marks = [event("user_annotation", f"ProfilerStep#{i}", 1, 1, 10 * i, 9.9) for i in range(count)]
    return marks + _frames(count)


def _deep_frames_and_steps(count: int) -> list[str]:
    deep = [event("python_function", f"f{i}.py(1): g", 1, 1, i / 1000, 20 * count) for i in range(count // 4)]
    return deep + [
        row
        for i in range(count)
        for row in (event("user_annotation", f"ProfilerStep#{i}", 1, 1, 10 * i + 5, 9.9), *pair(i, 10 * i + 6))
    ]


def _overlapping(count: int) -> list[str]:
    calls = [event("cpu_op", f"aten::o{i % 7}", 1, 1, 2 * i, 2 * count + i) for i in range(count)]
    return calls + [row for i in range(100) for row in pair(i, 100 * i)]


def _nested(count: int) -> list[str]:
    """Deep calls, all over when the launches begin."""
    calls = [event("cpu_op", f"aten::o{i % 7}", 1, 1, i, 4 * count - 2 * i) for i in range(count)]
    return calls + [row for i in range(count) for row in pair(i, 10 * (count + i))]


def _arrows(count: int) -> list[str]:
    return [
        row
        for i in range(count)
        for row in (
            event("cuda_runtime", "hipLaunchKernel", 1, i, 10 * i, 1),
            event("kernel", "k", 0, 7, 10 * i + 2, 3, device=0, stream=7),
            f'{{"ph": "s", "cat": "ac2g", "id": {i}, "pid": 1, "tid": {i}, "ts": {10 * i}, "name": "ac2g"}}',
            f'{{"ph": "f", "cat": "ac2g", "id": {i}, "pid": 0, "tid": 7, "ts": {10 * i + 2}, "name": "ac2g"}}',
        )
    ]


def _syncs(count: int) -> list[str]:
    wait = "cudaDeviceSynchronize"
    return [
        row
        for i in range(count)
        for row in (event("cuda_runtime", wait, 1, 1, 10 * i + 2, 6, correlation=10**6 + i), *pair(i, 10 * i))
    ]


LARGE: dict[str, tuple[Callable[[int], list[str]], int]] = {
    "threads": (_threads, 5_000),
    "backward threads": (_backward, 5_000),
    "processes": (_processes, 5_000),
    "devices": (_devices, 1_000),
    "streams": (_streams, 10_000),
    "one correlation id": (_one_correlation, 50_000),
    "steps": (_steps, 50_000),
    "frames": (_frames, 30_000),
    "frames and steps": (_frames_and_steps, 25_000),
    "deep frames and steps": (_deep_frames_and_steps, 8_000),
    "calls that overlap": (_overlapping, 50_000),
    "calls within calls": (_nested, 30_000),
    "arrows": (_arrows, 8_000),
    "blocking calls": (_syncs, 10_000),
}


@pytest.mark.parametrize(("make", "count"), LARGE.values(), ids=LARGE.keys())
def test_what_is_large_in_one_direction_takes_seconds_and_little_memory(
    tmp_path: Path, make: Callable[[int], list[str]], count: int
) -> None:
    properties = ", ".join(f'{{"id": {i}, "name": "GPU {i}"}}' for i in range(2_000))
    path = of_events(tmp_path / "large.json", make(count), f'"deviceProperties": [{properties}], ')
    began = time.monotonic()
    outcome = said(process("explain", str(path), "--json", limit=True))
    assert time.monotonic() - began < SECONDS
    assert outcome.code in (0, 3), outcome.err
    assert not outcome.err
    for device in json.loads(outcome.out)["devices"]:
        assert sum(entry["ns"] for entry in device["ledger"]) == device["window_ns"]


def test_steps_and_accounts_too_many_to_be_told_apart_are_told_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpuwhy.ledger import partition

    path = str(of_events(tmp_path / "p.json", _frames_and_steps(200)))
    apart = gpuwhy.explain(path)
    monkeypatch.setattr(partition, "MOST_CELLS", 100)
    together = gpuwhy.explain(path)
    assert apart.devices[0].steps
    assert not together.devices[0].steps
    assert [(e.account, e.ns) for e in together.devices[0].ledger] == [
        (e.account, e.ns) for e in apart.devices[0].ledger
    ]
    assert all(entry.per_step is None for entry in together.devices[0].ledger)


def test_a_name_of_a_megabyte_is_cut(tmp_path: Path) -> None:
    """Patterns that look for `cu…Launch` would search this one for hours."""
    name = "cu" * (1 << 19)
    rows = [event("cpu_op", name, 1, 1, 0, 100), event("cuda_runtime", name, 1, 1, 20, 5), *pair(1, 10), *pair(2, 50)]
    path = str(of_events(tmp_path / "p.json", rows))
    began = time.monotonic()
    assert max(map(len, gpuwhy.load(path).names)) == 10_000
    check_sums(gpuwhy.explain(path, window="all"))
    assert time.monotonic() - began < SECONDS


# ---- Timeline files ----


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("timeline") / "t.gpuwhy"
    profile = small()
    gpuwhy.load(str(profile.write(path.with_suffix(".json")))).save(str(path))
    return path.read_bytes()


def parts(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(entries: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return data.getvalue()


def array(values: Any) -> bytes:
    data = io.BytesIO()
    np.save(data, values, allow_pickle=True)
    return data.getvalue()


def test_a_zip_that_is_no_timeline_is_named(explain: Explain, tmp_path: Path) -> None:
    np.savez(tmp_path / "arrays.npz", a=np.arange(3))
    outcome = explain(tmp_path / "arrays.npz")
    assert outcome.code == 2
    assert "a zip file, but not a timeline that gpuwhy wrote" in outcome.message


def test_a_timeline_cut_anywhere_is_refused(explain: Explain, tmp_path: Path, saved: bytes) -> None:
    path = tmp_path / "t.gpuwhy"
    for at in range(4, len(saved) - 1, len(saved) // 40):
        path.write_bytes(saved[:at])
        outcome = explain(path)
        assert outcome.code == 2
        assert outcome.message


CHANGES: dict[str, tuple[str, Callable[[np.ndarray[Any, Any]], Any]]] = {
    "a launch that is not there": ("ops.launch", lambda a: a + 10**6),
    "a name that is not there": ("calls.name", lambda a: a + 10**6),
    "a negative name": ("ops.name", lambda a: a - 10**6),
    "a thread that is not there": ("calls.thread", lambda a: a + 5),
    "a thread of no number": ("calls.thread", lambda a: a * 0 - 1),
    "a device that is not there": ("ops.device", lambda a: a + 5),
    "calls out of order": ("calls.start", lambda a: a[::-1].copy()),
    "operations out of order": ("ops.start", lambda a: a[::-1].copy()),
    "ends before starts": ("calls.end", lambda a: a * 0),
    "times at the end of time": ("ops.end", lambda a: a * 0 + (2**63 - 1)),
    "small times": ("ops.start", lambda a: a.astype(np.int8)),
    "real times": ("ops.start", lambda a: a.astype(float)),
    "unsigned times": ("ops.start", lambda a: a.astype(np.uint64)),
    "times in two dimensions": ("ops.start", lambda a: np.stack((a, a), axis=1)),
    "a time by itself": ("ops.start", lambda a: a[0]),
    "a column that is shorter": ("ops.end", lambda a: a[:-1]),
    "a kind that is not there": ("calls.kind", lambda a: a + 50),
    "objects": ("ops.name", lambda a: np.array([{"run": "me"}] * len(a), object)),
}


@pytest.mark.parametrize(("column", "change"), CHANGES.values(), ids=CHANGES.keys())
def test_a_timeline_that_somebody_changed_is_refused(
    explain: Explain, tmp_path: Path, saved: bytes, column: str, change: Callable[[Any], Any]
) -> None:
    entries = parts(saved)
    values = np.load(io.BytesIO(entries[f"{column}.npy"]))
    entries[f"{column}.npy"] = array(change(values))
    path = tmp_path / "t.gpuwhy"
    path.write_bytes(zipped(entries))
    outcome = explain(path)
    assert outcome.code == 2
    assert "a damaged timeline file" in outcome.message


@pytest.mark.parametrize(
    "change",
    [{"gpuwhy_timeline": 99}, {"sources": []}, {"names": []}, {"devices": []}, {"threads": []}, {"names": 3}],
    ids=str,
)
def test_a_timeline_whose_description_was_changed_is_refused(
    explain: Explain, tmp_path: Path, saved: bytes, change: dict[str, Any]
) -> None:
    entries = parts(saved)
    entries["about.json"] = json.dumps(json.loads(entries["about.json"]) | change).encode()
    path = tmp_path / "t.gpuwhy"
    path.write_bytes(zipped(entries))
    outcome = explain(path)
    assert outcome.code == 2
    assert outcome.message


def test_bytes_changed_in_a_timeline_are_never_a_crash(tmp_path: Path, saved: bytes) -> None:
    rng = random.Random(3)
    entries = parts(saved)
    path = tmp_path / "t.gpuwhy"
    for _ in range(150):
        changed = dict(entries)
        name = rng.choice(list(entries))
        content = bytearray(entries[name])
        for _ in range(rng.randint(1, 3)):
            content[rng.randrange(len(content))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        changed[name] = bytes(content)
        path.write_bytes(zipped(changed))
        explained_or_refused(path)


def test_a_timeline_bomb_is_refused(explain: Explain, tmp_path: Path, saved: bytes) -> None:
    path = tmp_path / "t.gpuwhy"
    path.write_bytes(zipped(parts(saved) | {"ops.start.npy": bytes(300 << 20)}))
    outcome = explain(path)
    assert outcome.code == 2
    assert "expands more than 200 times" in outcome.message


# ---- Where input comes from and output goes to ----


def test_standard_input_is_read(tmp_path: Path) -> None:
    text = small().text().encode()
    for content in (text, gzip.compress(text)):
        outcome = said(process("explain", "-", "--json", input=content))
        assert outcome.code in (0, 3)
        assert json.loads(outcome.out)["source"]["files"] == ["standard input"]


def test_standard_input_is_read_once(explain: Explain) -> None:
    outcome = explain("-", "-")
    assert outcome.code == 2
    assert "only once" in outcome.message


def test_closed_standard_streams_are_no_crash(tmp_path: Path) -> None:
    path = str(small().write(tmp_path / "p.json"))
    command = f"'{sys.executable}' -m gpuwhy explain"
    shell = ["/bin/sh", "-c"]
    done = subprocess.run([*shell, f"{command} - <&-"], capture_output=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "standard input is closed" in said(done).message
    done = subprocess.run([*shell, f"{command} {path} <&-"], capture_output=True, check=False, timeout=60)
    assert done.returncode in (0, 3)
    done = subprocess.run([*shell, f"{command} {path} >&-"], capture_output=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "standard output is closed" in said(done).message
    for arguments in (path, "no.json"):
        done = subprocess.run([*shell, f"{command} {arguments} 2>&-"], capture_output=True, check=False, timeout=60)
        assert done.returncode in (0, 2, 3)
        assert b"Traceback" not in done.stdout


def test_a_named_pipe_is_read_byte_by_byte(explain: Explain, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = gzip.compress(small().text().encode())

    def write() -> None:
        with open(pipe, "wb", buffering=0) as end:
            for i in range(40):
                end.write(text[i : i + 1])
                time.sleep(0.001)
            end.write(text[40:])

    writer = threading.Thread(target=write)
    writer.start()
    assert explain(pipe).code in (0, 3)
    writer.join()


def test_a_pipe_that_stalls_after_damage_does_not_hold_the_program(tmp_path: Path) -> None:
    """The rest of a stream whose JSON is broken is not waited for, and leaving while a thread reads is no crash."""
    events = small().text().split("[\n", 1)[1].split("\n]", 1)[0].encode()
    broken = b'{"traceEvents": [' + events + b", ]" + random.Random(5).randbytes(500_000)
    stream = gzip.compress(broken)
    with subprocess.Popen(
        [sys.executable, "-m", "gpuwhy", "explain", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            running.stdin.write(stream[:-8])
            running.stdin.flush()
        assert running.wait(30) in (0, 2, 3)
        assert running.stderr is not None
        assert b"Fatal" not in running.stderr.read()


@pytest.mark.parametrize("option", ["--output", "--save-timeline"])
def test_a_place_that_cannot_be_written_is_said_so(explain: Explain, tmp_path: Path, option: str) -> None:
    path = small().write(tmp_path / "p.json")
    (tmp_path / "in").mkdir()
    for place in (tmp_path / "in", tmp_path / "no" / "file", "/dev/full"):
        outcome = explain(path, option, place)
        assert outcome.code == 2
        assert "cannot write" in outcome.message


@pytest.mark.parametrize("option", ["--output", "--save-timeline"])
def test_the_profile_itself_is_never_written_over(explain: Explain, tmp_path: Path, option: str) -> None:
    path = small().write(tmp_path / "p.json")
    (tmp_path / "link").symlink_to(path)
    before = path.read_bytes()
    for place in (path, tmp_path / "link", tmp_path / "." / "p.json"):
        outcome = explain(path, option, place)
        assert outcome.code == 2
        assert "would be lost" in outcome.message
    assert path.read_bytes() == before


def test_a_full_standard_output_is_said_so(tmp_path: Path) -> None:
    path = str(small().write(tmp_path / "p.json"))
    for options in ([], ["--json"]):
        with open("/dev/full", "wb") as full:
            outcome = said(process("explain", path, *options, stdout=full))
        assert outcome.code == 2
        assert "standard output: cannot write: No space left" in outcome.message


@pytest.mark.parametrize(
    "arguments", [["explain", "PATH"], ["explain", "PATH", "--json"], ["demo"], ["demo", "--json"]]
)
def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path, arguments: list[str]) -> None:
    path = str(of_events(tmp_path / "p.json", _frames(300)))
    arguments = [path if a == "PATH" else a for a in arguments]
    with subprocess.Popen(
        [sys.executable, "-m", "gpuwhy", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        running.stdout.close()
        assert running.wait(60) in (0, 3)
        assert running.stderr is not None
        assert not running.stderr.read()


@pytest.mark.parametrize(
    "environment", [{"LANG": "C", "LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}, {"PYTHONUTF8": "0", "LC_ALL": "POSIX"}]
)
def test_a_terminal_without_utf8_gets_its_report(tmp_path: Path, environment: dict[str, str]) -> None:
    profile = small()
    profile.frame("ünïcode.py(1): é", 0, 500_000)
    path = str(profile.write(tmp_path / "p→.json"))
    environment = {**os.environ, **environment}
    assert said(process("explain", path, env=environment)).code in (0, 3)
    done = process("explain", path, "--json", env=environment)
    assert done.returncode in (0, 3)
    assert json.loads(done.stdout)["source"]["files"] == [path]
    done = process("explain", path + "x", env=environment)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


def test_interrupting_a_stalled_pipe_leaves_with_one_line(tmp_path: Path) -> None:
    for content in (small().text().encode()[:3000], gzip.compress(small().text().encode())[:300]):
        with subprocess.Popen(
            [sys.executable, "-m", "gpuwhy", "explain", "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as running:
            assert running.stdin is not None
            running.stdin.write(content)
            running.stdin.flush()
            time.sleep(1.5)
            running.send_signal(signal.SIGINT)
            assert running.wait(30) == 130
            assert running.stderr is not None
            assert running.stderr.read() == b"gpuwhy: interrupted\n"


# ---- Fuzz ----


def check_sums(report: Any) -> int:
    """Every ledger sums to its window; returns how many there are."""
    for device in report.devices:
        assert sum(entry.ns for entry in device.ledger) == device.window_ns
        assert all(entry.ns > 0 for entry in device.ledger)
    return len(report.devices)


def explained_or_refused(path: Path) -> bool:
    """Whether the file is explained; anything but a sound report or a `GpuwhyError` is a failure."""
    try:
        report = gpuwhy.explain(str(path))
    except GpuwhyError:
        return False
    check_sums(report)
    return True


ODD_VALUES: list[Any] = [
    None, True, -1, 0, 1, 7, 2**31, 2**63 - 1, -(2**63), 2**64, 10**30, 1.5, 1e300, -1e300, 1e-9, float("nan"),
    float("inf"), "", "x", "7", "kernel", "cpu_op", "cuda_runtime", "python_function", "user_annotation",
    "ProfilerStep#1", "X", "s", "\ud800", "\x00\x1b[31m", "a" * 300, [], {}, [[]], {"a": 1},
]  # fmt: skip


class Fuzzer:
    """Mutants of the first events of the demo, by their bytes and by their structure."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        document = json.loads(gzip.decompress(DEMO.read_bytes()))
        marked = [e for e in document["traceEvents"] if str(e.get("name", "")).startswith("ProfilerStep")]
        middle = next(i for i, e in enumerate(document["traceEvents"]) if e.get("cat") == "kernel")
        some = document["traceEvents"]
        self.document = {**document, "traceEvents": marked + some[:150] + some[middle : middle + 250]}
        self.text = json.dumps(self.document).encode()

    def mutant(self) -> bytes:
        kind = self.rng.random()
        if kind < 0.45:
            return json.dumps(self.structure()).encode("utf-8", "surrogatepass")
        data = self.bytes(self.text)
        if kind > 0.9:
            data = self.bytes(gzip.compress(data, 1))
        return data

    def bytes(self, data: bytes) -> bytes:
        rng, out = self.rng, bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 5, 50))):
            at = rng.randrange(len(out) or 1)
            match rng.randrange(6):
                case 0:
                    out[at : at + 1] = bytes([rng.randrange(256)])
                case 1:
                    out[at : at + 1] = rng.choice(
                        (b'"', b"{", b"}", b"[", b"]", b",", b":", b"-", b"e", b"\\", b"9", b"\0")
                    )
                case 2:
                    del out[at : at + rng.choice((1, 2, 30, 3000))]
                case 3:
                    out[at:at] = out[at : at + rng.choice((1, 10, 300, 3000))]
                case 4:
                    out[at:at] = rng.choice((b"\xff", b"1" * 40, b"e999", b"[" * 600, b"\\u0000", b"NaN", b'"ts":'))
                case 5:
                    if rng.random() < 0.3:
                        del out[at:]
        return bytes(out)

    def structure(self) -> Any:
        rng = self.rng
        events = [dict(e) for e in self.document["traceEvents"]]
        whole = {**self.document, "traceEvents": events}
        share = rng.choice((0.002, 0.05, 0.5, 1.0))
        key = rng.choice(("ts", "dur", "name", "cat", "ph", "pid", "tid", "id", "args"))
        value = rng.choice(ODD_VALUES)
        inside = rng.choice(("correlation", "External id", "device", "stream", "bytes", "graph node id"))
        way = rng.randrange(7)
        for one in events:
            if rng.random() > share:
                continue
            if way == 0:
                one[key] = value
            elif way == 1:
                one[key] = rng.choice(ODD_VALUES)
            elif way == 2:
                one.pop(key, None)
            elif way == 3:
                one["args"] = {**(one.get("args") or {}), inside: rng.choice(ODD_VALUES)}
            elif way == 4 and isinstance(one.get("ts"), float):
                one["ts"] += rng.choice((-1e4, -1.0, -0.001, 0.001, 1.0, 1e4, 1e12, -1e15))
            elif way == 5 and "dur" in one:
                one["dur"] = rng.choice((0, 0.001, 1e3, 1e7, 8.64e10, -1))
        if way == 6:
            rng.shuffle(events)
            events.extend(rng.choices(events, k=rng.choice((1, 100))))
            del events[: rng.randrange(200)]
        if rng.random() < 0.3:
            whole[rng.choice((*whole, "x"))] = rng.choice((*ODD_VALUES, events[:3]))
        return rng.choice((whole, whole, whole, events))


def fuzz(seed: int, seconds: float, path: Path) -> tuple[int, int]:
    """Explain mutants for so long; how many there were and how many were explained."""
    fuzzer, until = Fuzzer(seed), time.monotonic() + seconds
    count = explained = 0
    while time.monotonic() < until:
        path.write_bytes(fuzzer.mutant())
        explained += explained_or_refused(path)
        count += 1
    return count, explained


def test_mutants_of_a_real_profile_are_explained_or_refused(tmp_path: Path) -> None:
    count, explained = fuzz(20, 6, tmp_path / "mutant.json")
    assert count > 20
    assert explained > count // 10


if __name__ == "__main__":  # python tests/test_bad_input.py SEED SECONDS: the same for longer
    import warnings

    warnings.simplefilter("error", RuntimeWarning)
    where = Path(f"/tmp/mutant-{os.getpid()}.json")  # stays there for a look if it breaks something
    print(fuzz(int(sys.argv[1]), float(sys.argv[2]), where))
    with contextlib.suppress(FileNotFoundError):
        where.unlink()
