"""Ceilings: what is kept, what is chosen, what the command shows; and what the driver is asked. Needs no torch."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuwhy.__main__ import main
from gpuwhy.errors import GpuwhyError
from gpuwhy.roofline import ceilings as kept
from gpuwhy.roofline import published
from gpuwhy.roofline.ceilings import (
    AllReduce,
    Ceilings,
    Clocks,
    Details,
    Dram,
    Launch,
    Links,
    Matmul,
    Peer,
    Range,
    Spread,
)
from gpuwhy.roofline.measure_driver import ClockWatch, Driver

H200 = "NVIDIA H200"
RECORDED = Path(__file__).parent / "data" / "h200_ceilings.json"

Run = Callable[..., tuple[int, str, str]]


def spread(mid: float) -> Spread:
    return Spread(low=0.9 * mid, mid=mid, high=1.1 * mid)


def measured(
    device: str = H200, sm_count: int | None = 132, at: str = "2026-01-01T00:00:00Z", **changes: Any
) -> Ceilings:
    """A measurement, with every detail given."""
    details = Details(
        measured_at=at,
        torch="2.11.0",
        driver="580.1",
        cuda="13.0",
        capability="9.0",
        clocks_mhz=Clocks(sm=Range(min=1500, median=1980, max=1980), throttled=["power cap"]),
        matmul=[
            Matmul(precision="bf16", size=4096, flops_per_s=spread(700e12)),
            Matmul(precision="bf16", size=8192, flops_per_s=spread(791.3e12)),
        ],
        dram=Dram(read=spread(4.456e12), write=spread(4.682e12), copy=spread(4.27e12)),
        links=Links(h2d_pinned=spread(55.5e9)),
        launch=Launch(eager_ns=spread(10230), graph_node_ns=spread(960)),
        peers=[Peer(source=0, target=1, direct=False, bytes_per_s=spread(31e9))],
        nccl=AllReduce(devices=2, bytes=1 << 20, bus_bytes_per_s=spread(360e9)),
        notes=["fp8: not here"],
    )
    values: dict[str, Any] = {
        "device": device,
        "sm_count": sm_count,
        "how": "measured",
        "source": "measured here on 2026-01-01 with torch 2.11.0",
        "flops": {"bf16": 791.3e12, "fp64": 60.6e12, "int8": 1.2e15},
        "dram_bytes_per_s": 4.456e12,
        "l2_bytes": 62914560,
        "l2_bytes_per_s": None,
        "details": details,
    }
    return Ceilings(**{**values, **changes})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, which does not exist yet."""
    monkeypatch.setenv("GPUWHY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `gpuwhy ceilings …` in this process: exit status, stdout, stderr."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gpuwhy", "ceilings", *map(str, arguments)])
        code: Any = 0
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code
        return (code or 0, *capsys.readouterr())

    return run


# ---- What is kept ----


def test_what_is_saved_is_loaded(folder: Path) -> None:
    one, other = measured(), measured("AMD Instinct MI300X", None)
    assert kept.load(kept.save(one)) == one
    kept.save(other)
    assert kept.load_all() == [other, one]
    assert {path.parent for path in folder.iterdir()} == {folder}


def test_measuring_again_replaces_what_was_kept() -> None:
    kept.save(measured())
    again = measured(at="2026-02-01T00:00:00Z")
    kept.save(again)
    assert kept.load_all() == [again]


@pytest.mark.parametrize(
    "device", ["../../etc/passwd", "a/b", "a\\b", "..", "", "naïve", "x" * 400, 'C:\\"<>|?*', "a\nb"]
)
def test_any_name_makes_one_plain_file_name(folder: Path, device: str) -> None:
    path = kept.file_of(device, 7)
    assert path.parent == folder
    assert re.fullmatch(r"ceilings-[A-Za-z0-9_.+-]{0,120}7sm\.json", path.name)


def test_devices_do_not_share_a_file() -> None:
    names = ["A B", "A/B", "A-B", "A\\B", "A?B"]
    assert len({kept.file_of(name, count) for name in names for count in (None, 14, 132)}) == 15


@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failing_save_leaves_what_was_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    kept.save(measured())
    before = {path: path.read_bytes() for path in folder.iterdir()}

    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises((GpuwhyError, KeyboardInterrupt)):
        kept.save(measured(at="2026-02-01T00:00:00Z"))
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GPUWHY_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(GpuwhyError, match="cannot keep the measurement"):
        kept.save(measured())
    assert kept.load_all() == []


GOOD = json.loads(kept.encode(measured()))
DAMAGED: dict[str, bytes] = {
    "empty": b"",
    "cut": kept.encode(measured()).encode()[:-200],
    "binary": bytes(range(256)),
    "another document": b'{"a": 1}',
    "a list": b"[]",
    "deep": b"[" * 100_000,
    "newer": json.dumps({**GOOD, "schema": 2}).encode(),
    "published": json.dumps({**GOOD, "how": "published"}).encode(),
    "no bandwidth": json.dumps({**GOOD, "dram_bytes_per_s": 0}).encode(),
    "negative": json.dumps({**GOOD, "flops": {"bf16": -1.0}}).encode(),
    "not a number": json.dumps({**GOOD, "flops": {"bf16": None}}).encode(),
    "tiny": json.dumps({**GOOD, "dram_bytes_per_s": 1e-300}).encode(),
    "of 400 digits": json.dumps({**GOOD, "flops": {"bf16": 10**400}}).encode(),
    "infinite": json.dumps({**GOOD, "flops": {"bf16": 1.0}}).replace("1.0}", "1e999}").encode(),
    "no name": json.dumps({**GOOD, "device": ""}).encode(),
    "huge": b" " * (kept.LARGEST_FILE + 1),
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_damaged_and_foreign_files_are_passed_over_with_a_note(folder: Path, data: bytes) -> None:
    good = measured()
    kept.save(good)
    (folder / "ceilings-damaged.json").write_bytes(data)
    notes: list[str] = []
    assert kept.load_all(notes.append) == [good]
    assert len(notes) == 1
    assert "ceilings-damaged.json" in notes[0]
    assert kept.choose(H200, 132) == good


def test_what_is_no_file_is_passed_over(folder: Path) -> None:
    folder.mkdir()
    (folder / "ceilings-folder.json").mkdir()
    os.mkfifo(folder / "ceilings-pipe.json")
    (folder / "ceilings-gone.json").symlink_to(folder / "nothing")
    notes: list[str] = []
    assert kept.load_all(notes.append) == []
    assert len(notes) == 3


def test_fields_of_a_later_version_do_no_harm(folder: Path) -> None:
    folder.mkdir()
    (folder / "ceilings-x.json").write_text(json.dumps({**GOOD, "more": [1]}))
    assert kept.load_all() == [measured()]


def test_the_folder_follows_the_systems_habits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kept.folder() == tmp_path / "cache"
    monkeypatch.delenv("GPUWHY_CACHE")
    assert kept.folder() == tmp_path / "gpuwhy"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for platform, expected in (
        ("linux", tmp_path / ".cache" / "gpuwhy"),
        ("darwin", tmp_path / "Library" / "Caches" / "gpuwhy"),
        ("win32", tmp_path / "AppData" / "Local" / "gpuwhy" / "Cache"),
    ):
        monkeypatch.setattr(sys, "platform", platform)
        assert kept.folder() == expected


# ---- The choice ----


def test_a_measurement_goes_before_what_is_published() -> None:
    assert kept.choose(H200, 132) == kept.from_published(published.find(H200, 132), H200)  # type: ignore[arg-type]
    kept.save(measured())
    assert kept.choose(H200, 132) == measured()
    assert kept.choose(H200) == measured()


def test_a_published_row_becomes_ceilings() -> None:
    chosen, row = kept.choose(H200, 132), published.find(H200, 132)
    assert chosen is not None
    assert row is not None
    assert (chosen.device, chosen.how, chosen.details) == (H200, "published", None)
    assert chosen.flops == dict(row.flops)
    assert (chosen.dram_bytes_per_s, chosen.l2_bytes) == (row.dram_bytes_per_s, row.l2_bytes)
    assert chosen.l2_bytes_per_s is None
    assert chosen.source == f"published dense peaks of the {row.name}"


def test_a_slice_is_another_device() -> None:
    whole, slice_ = measured(), measured(sm_count=16, dram_bytes_per_s=6e11)
    kept.save(slice_)
    assert kept.choose(H200, 16) == slice_
    assert kept.choose(H200, 132) != slice_
    kept.save(whole)
    assert kept.choose(H200, 16) == slice_
    assert kept.choose(H200, 132) == whole
    assert kept.choose(H200, 32) is None


def test_without_an_sm_count_two_measurements_of_a_name_are_ambiguous() -> None:
    kept.save(measured())
    kept.save(measured(sm_count=16))
    chosen = kept.choose(H200)
    assert chosen is not None
    assert chosen.how == "published"


def test_of_two_files_of_one_device_the_later_measurement_counts(folder: Path) -> None:
    later = measured(at="2026-03-01T00:00:00Z")
    kept.save(measured())
    (folder / "ceilings-copied.json").write_text(kept.encode(later))
    assert kept.choose(H200, 132) == later
    assert kept.choose(H200) == later


@pytest.mark.parametrize("name", [None, "", "A device of nobody", "H"])
def test_nameless_and_unknown_devices_have_no_ceilings(name: str | None) -> None:
    kept.save(measured())
    assert kept.choose(name) is None
    assert kept.choose(name, 132) is None


def test_choosing_and_help_import_nothing_heavy() -> None:
    script = (
        "import sys; from gpuwhy.roofline.ceilings import choose; choose('NVIDIA H200', 132);"
        "import gpuwhy.commands.ceilings, gpuwhy.__main__;"
        "print([m for m in ('torch', 'pynvml', 'numpy', 'isal', 'rich.table') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


# ---- The command ----


def test_help_fits_a_terminal_and_has_examples_and_exit_statuses(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run("--help")
    assert code == 0
    assert all(len(line) <= 80 for line in out.splitlines())
    assert "Examples:" in out
    assert re.search(r"Exit status:\s+0\s+measured", out)
    assert all(option in out for option in ("--device", "--show", "--name", "--json", "--force", "--output"))


def test_show_without_anything_kept_says_what_to_do(run: Run) -> None:
    code, out, err = run("--show")
    assert (code, out) == (2, "")
    assert "no ceilings are kept" in err
    assert "gpuwhy ceilings" in err


def test_show_prints_all_that_is_kept_in_fitting_units(run: Run) -> None:
    kept.save(measured())
    kept.save(measured("Other", 4, flops={"fp32": 2.5e9}))
    code, out, err = run("--show")
    assert (code, err) == (0, "")
    assert "NVIDIA H200 · 132 SMs · 9.0" in out
    words = " ".join(out.split())
    assert "bf16 (8192) 791 TFLOP/s 80 % of the published 989 TFLOP/s" in words
    # fp64 products run on matrix units: 60.6 of 66.9, and not of the vector units' 33.5
    assert "fp64 60.6 TFLOP/s 91 % of the published 66.9 TFLOP/s" in words
    assert "int8 1,200 TOP/s" in words
    assert "read 4.46 TB/s of the published 4.80 TB/s" in words
    assert "copies in, pinned 55.5 GB/s" in words
    assert "host, an operator 10.2 µs" in words
    assert "graph's node 0.96 µs" in words
    assert "0 to 1 31.0 GB/s through the host" in words
    assert "all-reduce, bus 360 GB/s 2 devices" in words
    assert "SM 1980 MHz 1500 to 1980; held down by: power cap" in words
    assert "note: fp8: not here" in words
    assert "fp32 2.50 GFLOP/s" in words
    assert all(len(line) <= 100 and line == line.rstrip() for line in out.splitlines())
    assert "\x1b" not in out


def test_colours_can_be_asked_for_and_refused(run: Run, tmp_path: Path) -> None:
    kept.save(measured())
    assert "\x1b[" in run("--show", "--color")[1]
    assert "\x1b" not in run("--show", "--no-color")[1]
    assert run("--show", "--output", tmp_path / "page") == (0, "", "")
    assert (tmp_path / "page").read_text() == run("--show")[1]


def test_a_name_shows_what_a_report_would_use_and_its_sources(run: Run) -> None:
    row = published.find(H200)
    assert row is not None
    for expect in ("published dense peaks of the", "measured here on"):
        code, out, err = run("--show", "--name", H200)
        assert (code, err) == (0, "")
        assert expect in out
        assert "published dense peaks of the" in out
        assert row.sources["row"] in out
        kept.save(measured())
    kept.save(measured("Mine alone"))
    assert "nothing is published" in run("--show", "--name", "Mine alone")[1]


def test_an_unknown_name_leaves_with_2(run: Run) -> None:
    code, out, err = run("--show", "--name", "A device of nobody\x1b[31m")
    assert (code, out) == (2, "")
    assert "nothing is known of a device" in err
    assert "\x1b" not in err


@pytest.mark.parametrize("arguments", [["--name", H200], ["--show", "--device", "0"], ["--show", "--force"]])
def test_options_that_do_not_go_together_leave_with_2(run: Run, arguments: list[str]) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("gpuwhy: ")


def test_json_decodes_into_ceilings(run: Run, tmp_path: Path) -> None:
    kept.save(measured())
    assert msgspec.json.decode(run("--show", "--json")[1], type=list[Ceilings]) == [measured()]
    assert msgspec.json.decode(run("--show", "--name", H200, "--json")[1], type=Ceilings) == measured()
    assert run("--show", "--json", "-o", tmp_path / "all.json") == (0, "", "")
    assert json.loads((tmp_path / "all.json").read_text()) == [GOOD]


def test_damaged_files_are_told_on_stderr(run: Run, folder: Path) -> None:
    kept.save(measured())
    (folder / "ceilings-damaged.json").write_text("{")
    code, out, err = run("--show", "--json")
    assert code == 0
    assert len(json.loads(out)) == 1
    assert "it is ignored" in err


def test_without_torch_the_hint_says_which_python(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    code, out, err = run()
    assert (code, out) == (2, "")
    assert "torch is not installed in this Python" in err
    assert "python -m gpuwhy ceilings" in err


def test_with_torch_and_no_gpu_one_message_says_so(folder: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "gpuwhy", "ceilings"],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "finds no GPU to measure" in done.stderr
    assert "Traceback" not in done.stderr
    assert not folder.exists()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """A machine whose measurement is known: `busy` says how others use it."""
    state = types.SimpleNamespace(busy=None, result=measured())

    def measure(device: int, on_progress: Callable[[str], None]) -> Ceilings:
        on_progress("memory")
        if isinstance(state.result, BaseException):
            raise state.result
        result: Ceilings = state.result
        return result

    module: Any = types.ModuleType("gpuwhy.roofline.measure")
    module.find_device, module.in_use, module.measure = (lambda index: index or 0), (lambda _: state.busy), measure
    monkeypatch.setitem(sys.modules, "gpuwhy.roofline.measure", module)
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    return state


def test_a_measurement_is_shown_and_kept(run: Run, machine: types.SimpleNamespace) -> None:
    code, out, err = run()
    assert code == 0
    assert "791 TFLOP/s" in out
    assert "kept in" in err
    assert kept.load_all() == [measured()]
    assert msgspec.json.decode(run("--json")[1], type=Ceilings) == measured()


def test_a_device_in_use_is_measured_but_kept_only_by_force(run: Run, machine: types.SimpleNamespace) -> None:
    machine.busy = "its utilization is 80 %"
    code, out, err = run()
    assert code == 3
    assert "791 TFLOP/s" in out
    assert "its utilization is 80 %" in err
    assert "not kept" in err
    assert kept.load_all() == []
    assert run("--force")[0] == 0
    assert kept.load_all() == [measured()]


def test_an_interrupt_leaves_what_was_kept(run: Run, machine: types.SimpleNamespace) -> None:
    kept.save(measured(at="2025-01-01T00:00:00Z"))
    machine.result = KeyboardInterrupt()
    assert run()[0] == 130
    assert kept.load_all() == [measured(at="2025-01-01T00:00:00Z")]


def test_what_cannot_be_kept_is_still_shown(
    run: Run, machine: types.SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GPUWHY_CACHE", str(tmp_path / "file"))
    code, out, err = run()
    assert code == 2
    assert "791 TFLOP/s" in out
    assert "cannot keep" in err


# ---- The driver ----


class FakeNvml(types.ModuleType):
    """What of NVML is asked. An attribute that is missing is a function that this driver does not have."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    def __init__(self, percent: list[int], used: int = 0, pids: tuple[int, ...] = ()) -> None:
        super().__init__("pynvml")
        self.percent, self.used, self.pids, self.reasons = percent, used, pids, 0x1
        self.sm = [1980, 1500, 1980]

    def nvmlInit(self) -> None: ...

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"580.1"

    def nvmlDeviceGetCount(self) -> int:
        return 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid != "GPU-abc":
            raise ValueError(uuid)
        return uuid

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return "the only one"

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> Any:
        return types.SimpleNamespace(gpu=self.percent.pop(0) if len(self.percent) > 1 else self.percent[0])

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:
        return types.SimpleNamespace(total=16 << 30, used=self.used)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        return [types.SimpleNamespace(pid=pid) for pid in self.pids]

    def nvmlDeviceGetClockInfo(self, handle: str, clock: int) -> int:
        return self.sm.pop(0) if clock == self.NVML_CLOCK_SM else 3201

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:
        return self.reasons


def driver(monkeypatch: pytest.MonkeyPatch, nvml: Any, uuid: str | None = "abc") -> Driver:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr("gpuwhy.roofline.measure_driver.LOOK_EVERY_S", 0)
    return Driver(uuid)


def test_a_device_is_in_use_by_its_utilization_or_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert driver(monkeypatch, FakeNvml([0], used=600 << 20)).in_use() is None
    assert driver(monkeypatch, FakeNvml([4, 3, 2])).in_use() is None
    assert driver(monkeypatch, FakeNvml([0, 0, 37])).in_use() == "its utilization is 37 %"
    assert driver(monkeypatch, FakeNvml([0], 4 << 30)).in_use() == "another process holds 4.3 GB of its memory"
    held = driver(monkeypatch, FakeNvml([0], 4 << 30, (os.getpid(), 98, 99))).in_use()
    assert held == "2 other processes hold 4.3 GB of its memory"


def test_clocks_are_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml([0])
    watch = ClockWatch(driver(monkeypatch, nvml))
    monkeypatch.setattr(watch, "LEAST_APART_S", 0)
    for reasons in (0x1, 0x4 | 0x20, 0x4):
        nvml.reasons = reasons
        watch.look()
    assert watch.clocks() == Clocks(
        sm=Range(min=1500, median=1980, max=1980),
        memory=Range(min=3201, median=3201, max=3201),
        throttled=["power cap", "thermal slowdown"],
    )


def test_the_driver_finds_the_device_or_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert driver(monkeypatch, FakeNvml([0])).handle == "GPU-abc"
    assert driver(monkeypatch, FakeNvml([0]), None).handle == "the only one"
    many = FakeNvml([80])
    monkeypatch.setattr(many, "nvmlDeviceGetCount", lambda: 8)
    lost = driver(monkeypatch, many, "of another driver")
    assert (lost.known(), lost.in_use(), lost.version()) == (False, None, "580.1")


@pytest.mark.parametrize("nvml", [None, types.ModuleType("pynvml")], ids=["no package", "no driver"])
def test_without_nvml_everything_is_unknown(monkeypatch: pytest.MonkeyPatch, nvml: Any) -> None:
    found = driver(monkeypatch, nvml)
    watch = ClockWatch(found)
    watch.look()
    assert (found.known(), found.in_use(), found.version(), watch.clocks()) == (False, None, None, Clocks())


# ---- A real device ----

DEVICE_SIDE = 1.05
HOST_SIDE = 3.0
"""How far two measurements on different machines of one model may lie apart: hosts differ, devices do not."""


def test_our_measured_h200_agrees_with_an_independent_measurement(shared_dir: Path) -> None:
    assert RECORDED.is_file(), f"record it on an H200: gpuwhy ceilings --json --output {RECORDED}"
    ours = msgspec.json.decode(RECORDED.read_bytes(), type=Ceilings)
    theirs = json.loads((shared_dir / "h200" / "ceilings.json").read_text())
    details = ours.details
    assert details is not None
    assert (ours.device, ours.sm_count, ours.how) == (H200, 132, "measured")

    def product(precision: str, size: int) -> float:
        (rate,) = [m.flops_per_s.mid for m in details.matmul if (m.precision, m.size) == (precision, size)]
        return rate / 1e12

    def mid(figure: Spread | None) -> float:
        assert figure is not None
        return figure.mid

    pairs = {
        "gemm_bfloat16_8192_tflops": (product("bf16", 8192), DEVICE_SIDE),
        "gemm_float32_4096_tflops": (product("fp32", 4096), DEVICE_SIDE),
        "gemm_float64_4096_tflops": (product("fp64", 4096), DEVICE_SIDE),
        "gemm_tf32_8192_tflops": (product("tf32", 8192), DEVICE_SIDE),
        "gemm_fp8_8192_tflops": (product("fp8", 8192), DEVICE_SIDE),
        "copy_TBps": (mid(details.dram.copy) / 1e12, DEVICE_SIDE),
        "read_sum_TBps": (mid(details.dram.read) / 1e12, DEVICE_SIDE),
        "fill_TBps": (mid(details.dram.write) / 1e12, DEVICE_SIDE),
        "h2d_pinned_GBps": (mid(details.links.h2d_pinned) / 1e9, DEVICE_SIDE),
        "d2h_pinned_GBps": (mid(details.links.d2h_pinned) / 1e9, DEVICE_SIDE),
        "h2d_pageable_GBps": (mid(details.links.h2d_pageable) / 1e9, HOST_SIDE),
        "launch_us_op": (mid(details.launch.eager_ns) / 1e3, HOST_SIDE),
        "graph_node_us": (mid(details.launch.graph_node_ns) / 1e3, HOST_SIDE),
    }
    apart = {
        key: mine / theirs[key] for key, (mine, most) in pairs.items() if not 1 / most <= mine / theirs[key] <= most
    }
    assert not apart, "ours over theirs"
