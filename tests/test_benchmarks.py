"""The scripts in benchmarks/: a grown profile is what it claims; its check sees an id that was not moved."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import load_benchmark

HEAD = """
  {
    "schemaVersion": 1,
    "deviceProperties": [
    {
      "id": 0, "name": "Test GPU", "totalGlobalMem": 1024
    }
    ],
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1790857026000000000,
  "traceEvents": [
"""
TAIL = """
  ],
  "traceName": "tiny.json"
}"""


def x(cat: str, name: str, ts: str, dur: str, args: dict[str, Any], tid: int = 100) -> str:
    where = '"pid": 0, "tid": 7' if cat in ("kernel", "gpu_user_annotation") else f'"pid": 100, "tid": {tid}'
    inside = json.dumps(args)[1:-1]
    return (
        f'  {{\n    "ph": "X", "cat": "{cat}", "name": {json.dumps(name)}, {where},\n'
        f'    "ts": {ts}, "dur": {dur},\n    "args": {{\n      {inside}\n    }}\n  }}'
    )


def flow(ph: str, cat: str, number: int, ts: str) -> str:
    end = ', "bp": "e"' if ph == "f" else ""
    return (
        f'  {{\n    "ph": "{ph}", "id": {number}, "pid": 100, "tid": 100, "ts": {ts},\n'
        f'    "cat": "{cat}", "name": "{cat}"{end}\n  }}'
    )


def tiny() -> str:
    """Two steps: an operator, its launch and two kernels; before them a kernel without its launch."""
    kernel = {"device": 0, "stream": 7, "est. achieved occupancy %": 5}
    events = [x("kernel", "before", "1000.900", "2.101", {"correlation": 6, "External id": 800, **kernel})]
    for step, at in ((3, 1002), (4, 1010)):
        op, call = 900 + step, 10 + step
        frame = {"Python parent id": None if step == 3 else 1, "Python id": step - 2, "Ev Idx": step + 5}
        number = {"Record function id": 0, "Ev Idx": 2 * step}
        mark = {"External id": op + 50}
        linked = {"External id": op, "correlation": call}
        wait = {"wait_on_cuda_event_id": step, "wait_on_cuda_event_record_corr_id": call}
        events += [
            x("user_annotation", f"ProfilerStep#{step}", f"{at}.001", "6.000", {**mark, **number}),
            x("python_function", 'say("100 %", "Ev Idx": 7)', f"{at}.002", "5.000", frame),
            x(
                "cpu_op",
                "aten::mm",
                f"{at}.101",
                "0.500",
                {
                    "External id": op,
                    "Sequence number": step,
                    "Fwd thread id": 0,
                    "Record function id": step,
                    "Concrete Inputs": ["", "1"],
                    "Ev Idx": 2 * step + 1,
                },
            ),
            x("cuda_runtime", "cudaLaunchKernel", f"{at}.200", "0.300", linked),
            flow("s", "ac2g", call, f"{at}.200"),
            x("kernel", "gemm", f"{at}.999", "1.002", {**linked, **kernel}),
            x("kernel", "gemm", f"{at + 1}.500", "1.002", {**linked, **kernel}),
            flow("f", "ac2g", call, f"{at}.999"),
            flow("s", "fwdbwd", step - 2, f"{at}.101"),
            flow("f", "fwdbwd", step - 2, f"{at + 3}.101"),
            x("cuda_sync", "Stream Wait Event", f"{at + 4}.000", "0.100", wait),
            x("gpu_user_annotation", f"ProfilerStep#{step}", f"{at}.999", "1.503", mark),
        ]
    events += [
        '  {\n    "name": "process_name", "ph": "M", "ts": 1000.000, "pid": 100, "tid": 0,\n'
        '    "args": {\n      "name": "python3"\n    }\n  }',
        '  {\n    "ph": "X", "cat": "Trace", "ts": 1000.000, "dur": 20.250,\n'
        '    "pid": "Spans", "tid": "P",\n'
        '    "name": "PyTorch Profiler (0)",\n    "args": {\n      "Op count": 0\n    }\n  }',
        '  {\n    "name": "Record Window End", "ph": "i", "s": "g",\n    "pid": "", "tid": "", "ts": 1020.250\n  }',
    ]
    return HEAD + ",\n".join(events) + TAIL


@pytest.fixture(scope="module")
def grower() -> Any:
    return load_benchmark("grow_profile")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.json.gz"
    path.write_bytes(gzip.compress(tiny().encode()))
    return path


def text_of(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()


def test_one_copy_is_the_source_byte_for_byte(grower: Any, small: Path, tmp_path: Path) -> None:
    out = tmp_path / "one.json.gz"
    assert grower.main([str(small), str(out), "--copies", "1"]) == 0
    assert text_of(out) == tiny()


def test_copies_link_as_the_source_does(
    grower: Any, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "grown.json.gz"
    assert grower.main([str(small), str(out), "--copies", "5", "--rank", "0"]) == 0
    assert "no id is in two copies" in capsys.readouterr().out

    source, profile = json.loads(tiny()), json.loads(text_of(out))
    repeated = len(source["traceEvents"]) - 3
    events = profile["traceEvents"]
    assert len(events) == 5 * repeated + 3
    assert profile["distributedInfo"]["rank"] == 0

    # The copies are 1 ms apart: the source is shorter than that. Decimals stay as they were.
    assert re.findall(r'"name": "before".*\n +"ts": (\S+),', text_of(out)) == [
        "1000.900",
        "2000.900",
        "3000.900",
        "4000.900",
        "5000.900",
    ]
    assert [event["dur"] for event in events if event.get("cat") == "Trace"] == [4020.25]
    assert events[-1]["ts"] == 5020.25
    steps = [event["name"] for event in events if event.get("cat") == "user_annotation"]
    assert steps == [f"ProfilerStep#{number}" for number in range(3, 13)]

    last = events[4 * repeated : 5 * repeated]
    assert [event["cat"] for event in last] == [event["cat"] for event in source["traceEvents"][:repeated]]
    assert last[2]["name"] == 'say("100 %", "Ev Idx": 7)'
    assert last[2]["args"]["Python parent id"] is None
    assert [event["args"]["Record function id"] for event in last if event["name"] == "aten::mm"] == [11, 12]


def test_marks_of_steps_can_be_left_out(grower: Any, small: Path, tmp_path: Path) -> None:
    out = tmp_path / "grown.json.gz"
    assert grower.main([str(small), str(out), "--copies", "2", "--no-steps"]) == 0
    assert "ProfilerStep" not in text_of(out)
    assert len(json.loads(text_of(out))["traceEvents"]) == 2 * 21 + 3


@pytest.mark.parametrize(
    "number",
    [
        r'"correlation": (\d+), "device"',
        r'"correlation": (\d+), "External id"',
        r'"External id": (\d+)',
        r'"Ev Idx": (\d+)\n',
        r'"Record function id": ([1-9]\d*)',
        r'"Sequence number": (\d+)',
        r'"Python id": (\d+)',
        r'"wait_on_cuda_event_id": (\d+)',
        r'"wait_on_cuda_event_record_corr_id": (\d+)',
        r'"ph": "s", "id": (\d+)',
        r'"ph": "f", "id": (\d+)',
        r'"ProfilerStep#(\d+)"',
        r'"ts": (\d+)',
    ],
)
def test_the_check_sees_what_was_not_moved(grower: Any, small: Path, tmp_path: Path, number: str) -> None:
    out = tmp_path / "grown.json.gz"
    source = grower.Source.read(small)
    grower.grow(source, out, 4)
    assert grower.check(source, out, io.StringIO())

    text = text_of(out)
    copies = text.split('"name": "before"')
    values = [re.findall(number, copy)[0] for copy in copies[1:]]
    assert len(set(values)) == 4
    changed = re.search(number, copies[3])
    assert changed is not None
    copies[3] = copies[3][: changed.start(1)] + values[1] + copies[3][changed.end(1) :]
    out.write_bytes(gzip.compress('"name": "before"'.join(copies).encode()))
    said = io.StringIO()
    assert not grower.check(source, out, said)
    assert "WRONG: " in said.getvalue()


def test_the_check_sees_a_changed_time_and_a_lost_kernel(grower: Any, small: Path, tmp_path: Path) -> None:
    out = tmp_path / "grown.json.gz"
    assert grower.main([str(small), str(out), "--copies", "3"]) == 0
    text = text_of(out)
    one = r'  \{\n    "ph": "X", "cat": "kernel", "name": "gemm"[^{]*\{[^{]*\},\n'
    kernel = re.search(one, text[len(text) // 2 :])
    assert kernel is not None
    for broken in (text.replace('"dur": 2.101', '"dur": 2.100', 1), text.replace(kernel[0], "", 1)):
        assert broken != text
        out.write_bytes(gzip.compress(broken.encode()))
        assert grower.main([str(small), str(out), "--check-only"]) == 1


def test_it_refuses_what_it_does_not_know(grower: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "old.json.gz"
    path.write_bytes(gzip.compress(tiny().replace("baseTimeNanoseconds", "base").encode()))
    assert grower.main([str(path), str(tmp_path / "out.json.gz")]) == 2
    path.write_bytes(gzip.compress(tiny().replace('"correlation": 13', '"correlation": 2000000000').encode()))
    assert grower.main([str(path), str(tmp_path / "out.json.gz"), "--copies", "9"]) == 2
    assert "ids" in capsys.readouterr().err


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_whole_process_tree_is_measured() -> None:
    compare = load_benchmark("compare_hta")
    child = "import time; data = bytearray(40 << 20); time.sleep(1.5)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}]); print('done')"
    tool = compare.Tool("tool", [sys.executable, "-c", code], [])
    cores = {min(os.sched_getaffinity(0))}
    run = compare.measure(tool, 0, cores)
    assert run.output == "done"
    assert run.processes == 2
    assert 40 << 20 < run.peak_bytes < 120 << 20
    assert run.peak_of_largest_bytes > 40 << 20  # at least: the kernel counts the process that forked it, too
    assert 1.5 < run.wall_s < 60
    assert 0 < run.cpu_s < run.wall_s
    with pytest.raises(RuntimeError, match="ended with 3"):
        compare.measure(compare.Tool("tool", [sys.executable, "-c", "exit(3)"], []), 0, cores)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_ratios_are_taken_within_a_turn() -> None:
    compare = load_benchmark("compare_hta")
    walls = {"HTA": (100.0, 300.0, 220.0), "gpuwhy": (5.0, 10.0, 10.0)}
    runs = [
        compare.Run(tool, turn, wall, wall, 10**9, 10**9, 1)
        for tool, times in walls.items()
        for turn, wall in enumerate(times)
    ]
    summary = compare.summarise(runs)
    ratios = {"median": 22.0, "low": 20.0, "high": 30.0, "all": [20.0, 30.0, 22.0]}
    assert summary["ratios"]["wall_s"] == ratios
    assert summary["tools"]["HTA"]["wall_s"] == {"median": 220.0, "min": 100.0, "max": 300.0}
    facts = {"events": 5_000_000, "json_bytes": 10**9, "file_bytes": 10**8, "limit_cores": 2}
    assert "| gpuwhy | 10.0 s (5.0 s–10.0 s) |" in compare.markdown(summary, facts)


@pytest.mark.parametrize("stage", ["roofline", "whatif"])
def test_the_cost_of_a_stage_is_measured_with_and_without_it(stage: str, small: Path) -> None:
    cost = load_benchmark("stage_cost")
    assert cost.seconds(str(small), stage, True) > 0
    assert cost.seconds(str(small), stage, False) > 0


def test_a_rank_is_added_for_hta(small: Path, tmp_path: Path) -> None:
    compare = load_benchmark("compare_hta")
    copy = compare.with_rank(small, tmp_path)
    assert copy != small
    profile = json.loads(text_of(copy))
    assert profile.pop("distributedInfo")["rank"] == 0
    assert profile == json.loads(tiny())
    assert compare.with_rank(copy, tmp_path) == copy
    assert compare.size_of(small) == (len(tiny()), len(profile["traceEvents"]))


def test_the_ledger_of_a_grown_profile_is_the_sum_of_its_copies(grower: Any, tmp_path: Path) -> None:
    demo = Path(__file__).resolve().parents[1] / "src/gpuwhy/data/demo.pt.trace.json.gz"
    out = tmp_path / "grown.json.gz"
    assert grower.main([str(demo), str(out), "--copies", "3"]) == 0
    ledgers = load_benchmark("ledger_of_copies")
    assert ledgers.check(str(demo), str(out))
    other = tmp_path / "other.json.gz"
    longer = re.sub(
        r'("cat": "kernel"[^}]*"dur": \d+)(\.\d{3})', r"\g<1>1\2", text_of(out), count=1
    )  # one kernel longer
    other.write_bytes(gzip.compress(longer.encode()))
    assert not ledgers.check(str(demo), str(other))
