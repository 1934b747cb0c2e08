"""`--redact`: nothing that is the user's own is left in any report, and nothing else changes."""

from __future__ import annotations

import getpass
import gzip
import json
import re
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from conftest import SHARED, needs_shared
from events import Profile
from journaling import OPTIMIZER, Process, write_run

import gpuwhy
from gpuwhy import api
from gpuwhy.errors import GpuwhyError
from gpuwhy.redact.names import Names
from gpuwhy.redact.public import is_public_kernel, public_part
from gpuwhy.redact.redact import redacted
from gpuwhy.reports.json import encode
from gpuwhy.reports.model import Verdict
from gpuwhy.run.analyse import explain_run
from gpuwhy.timeline import CallKind

SECRET = re.compile(r"(?i)zebra")
"""In every name of the profile below that is the user's own."""


def secretive(folder: Path) -> Path:
    """Five steps that wait for their own loader, in a program whose every name is its own."""
    profile = Profile()
    for step in range(6):
        at = step * 1_000_000
        profile.step(step + 1, at, at + 1_000_000)
        profile.frame("/home/zebra/zebra_corp/train_zebra.py(10): train_zebra_step", at, at + 999_000)
        profile.annotation("zebra phase", at + 1_000, at + 400_000)
        profile.frame("/home/zebra/zebra_corp/loader.py(77): zebra_decode", at + 2_000, at + 390_000)
        profile.frame("nn.Module: ZebraBlock_3", at + 450_000, at + 800_000)
        profile.frame(
            "/opt/lib/python3.11/site-packages/torch/nn/modules/linear.py(125): forward", at + 460_000, at + 700_000
        )
        profile.operator("zebralib::striped_attention", at + 470_000, at + 560_000, inputs=[("float", [4, 5])])
        profile.launch(
            at + 480_000, at + 490_000, at + 600_000, at + 700_000, name="zebra_striped_kernel<ZebraType>(float*)"
        )
        profile.operator("aten::mm", at + 570_000, at + 690_000, inputs=[("float", [64, 64]), ("float", [64, 64])])
        profile.launch(at + 580_000, at + 590_000, at + 700_000, at + 900_000, name="sm90_xmma_gemm_f32f32")
        profile.operator("ZebraFunctionBackward", at + 691_000, at + 695_000)
    path = folder / "zebra_corp" / "zebra.pt.trace.json.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    profile.write(path)
    return path


def command(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    done = [sys.executable, "-m", "gpuwhy", *arguments]
    return subprocess.run(done, capture_output=True, text=True, timeout=120, check=False, cwd=cwd)


def test_no_private_name_is_left_in_any_report(tmp_path: Path) -> None:
    path = secretive(tmp_path)
    html, perfetto = tmp_path / "r.html", tmp_path / "p.json"
    options = ["--redact", "--top", "9", "--html", str(html), "--perfetto", str(perfetto)]
    text = command("explain", str(path), *options)
    assert text.returncode in (0, 3), text.stderr
    told = command("explain", str(path), "--redact", "--json", "--top", "9")
    assert SECRET.search(command("explain", str(path)).stdout)  # else this test shows nothing
    for report in (text.stdout, text.stderr, told.stdout, html.read_text(), perfetto.read_text()):
        assert len(report) > 500 or report is text.stderr
        found = SECRET.search(report)
        assert not found, report[max(found.start() - 100, 0) : found.end() + 100]
        for word in (str(tmp_path), "/home/", "/opt/"):
            assert word not in report
    assert "torch/nn/modules/linear.py(125): forward" in html.read_text()
    events = json.loads(perfetto.read_text())["traceEvents"]
    assert any(event["name"].startswith("idle/outside_operators/file-") for event in events)


def test_a_comparison_has_none_either_and_one_name_on_both_sides(tmp_path: Path) -> None:
    one, other = secretive(tmp_path / "a"), secretive(tmp_path / "b")
    for form in ((), ("--json",)):
        told = command("compare", str(one), str(other), "--redact", *form)
        assert told.returncode == 0, told.stderr
        assert not SECRET.search(told.stdout)
        assert str(tmp_path) not in told.stdout
    accounts = json.loads(told.stdout)["accounts"]
    assert {row["after_ns"] - row["before_ns"] for row in accounts} == {0.0}


def test_figures_accounts_and_public_names_stay(tmp_path: Path) -> None:
    found = api.explained(gpuwhy.load(str(secretive(tmp_path))), top=9)
    (before,), (after,) = found.report.devices, redacted(found).report.devices
    assert [entry.ns for entry in after.ledger] == [entry.ns for entry in before.ledger]
    same = [entry.account for entry in before.ledger if not re.search("(?i)zebra|/opt/", entry.account)]
    assert [entry.account for entry in after.ledger if entry.account in same] == same
    public = {weight.name for weight in before.weights if not re.search("(?i)zebra|/opt/", weight.name)}
    assert public <= {weight.name for weight in after.weights}
    assert after.largest_loss.ns == before.largest_loss.ns


def test_the_same_name_has_the_same_replacement_and_different_ones_have_not(tmp_path: Path) -> None:
    names = Names()
    one = names.call("/home/u/a.py(1): f", CallKind.PYTHON)
    assert names.call("/home/u/a.py(1): f", CallKind.PYTHON) == one == "file-1.py(1): function-1"
    assert names.call("/home/u/a.py(9): g", CallKind.PYTHON) == "file-1.py(9): function-2"
    assert names.call("/home/u/b.py(1): f", CallKind.PYTHON) == "file-2.py(1): function-1"
    assert names.call("nn.Module: Mine_0", CallKind.PYTHON) == "nn.Module: Module-1_0"
    assert names.call("nn.Module: Mine_1", CallKind.PYTHON) == "nn.Module: Module-1_1"
    assert names.call("nn.Module: Linear_1", CallKind.PYTHON) == "nn.Module: Linear_1"


@pytest.mark.parametrize(
    ("path", "public"),
    [
        ("torch/nn/functional.py", "torch/nn/functional.py"),
        ("/root/venv/lib/python3.12/site-packages/transformers/trainer.py", "transformers/trainer.py"),
        ("threading.py", "threading.py"),
        ("/usr/lib/python3.12/threading.py", "threading.py"),
        ("/usr/lib/python3.12/json/decoder.py", None),
        ("/home/me/torch/mine.py", None),
        ("/home/me/threading.py", None),
        ("train.py", None),
        ("queue.py", None),
        ("datasets/patients.py", None),
        ("/v/site-packages/datasets/load.py", "datasets/load.py"),
        ("secret/torch/x.py", None),
        ("", None),
    ],
)
def test_which_files_are_everybodys(path: str, public: str | None) -> None:
    assert public_part(path) == public


@pytest.mark.parametrize(
    ("name", "public"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)", True),
        ("Memcpy HtoD (Pageable -> Device)", True),
        ("nvjet_sm90_tst_64x64_64x13_4x2_h_bz_bias_TNT", True),
        ("triton_poi_fused_zebra_0", False),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", True),
        ("my_gemm_kernel", False),
        ("gemm_acme_fused", False),
        ("sm90_acme_secret", False),
        ("Memcpy acme", False),
        ("void acme::fused_mlp<float>(float*)", False),
        ("triton_secret_sauce", False),
    ],
)
def test_which_kernels_are_everybodys(name: str, public: bool) -> None:
    assert is_public_kernel(name) is public


def test_a_run_tells_neither_its_command_nor_its_folder(tmp_path: Path) -> None:
    process = Process().anchored(OPTIMIZER).every(10, 200, since=2000)
    process.note("compiled", 500, begun=1, co_name="zebra_forward", co_filename="/home/zebra/m.py", co_firstlineno=3)
    process.note("missing", 3, what="could not read /home/zebra/secret")
    words = ["/usr/bin/python3", "zebra/train.py", "--data", "/home/zebra/data", "--name", "zebra"]
    folder = write_run(tmp_path / "zebra", process, wall=4_500, command=words)
    for form in ((), ("--json",)):
        told = command("explain", str(folder), "--redact", *form)
        assert told.returncode == 0, told.stderr
        assert not SECRET.search(told.stdout), SECRET.findall(told.stdout)
        assert str(tmp_path) not in told.stdout
    run = json.loads(told.stdout)["run"]
    assert run["command"][0] == "python3"
    assert run["throughput"]["steps"] == 200


def test_threads_are_not_called_by_their_names(tmp_path: Path) -> None:
    """As the rule on Python's lock names one."""
    process = Process().anchored(OPTIMIZER).every(10, 200, since=2000).note("thread", 5, tid=8, name="Zebra-heartbeat")
    found = explain_run(write_run(tmp_path, process, wall=4_500))
    sentence = "the thread 'Zebra-heartbeat' holds Python's lock while the loop waits for it"
    verdict = Verdict(text=sentence, healthy=False, cause="host_contention")
    told = redacted(replace(found, report=msgspec.structs.replace(found.report, verdict=verdict))).report.verdict.text
    assert told == "the thread 'thread-1' holds Python's lock while the loop waits for it"


def test_words_and_numbers_of_a_command_change_nothing_else(tmp_path: Path) -> None:
    """Arguments such as `64`, `host` or `ok` are not looked for in what gpuwhy itself says."""
    process = Process().anchored(OPTIMIZER).every(10, 200, since=2000)
    words = ["python", "train.py", "--gpus", "1", "--batch", "64", "--mode", "host", "10.0", "ok", "median"]
    found = explain_run(write_run(tmp_path, process, wall=4_500, command=words))
    plain, told = found.report, redacted(found).report
    assert told.run is not None
    assert plain.run is not None
    assert told.run.command[:2] == ["python", "file-2.py"]
    assert (told.verdict, told.trust, told.run.throughput) == (plain.verdict, plain.trust, plain.run.throughput)


def test_functions_named_like_gpuwhys_own_words_change_nothing_else(tmp_path: Path) -> None:
    profile = Profile()
    for step in range(6):
        at = step * 1_000_000
        profile.step(step + 1, at, at + 1_000_000)
        for place, name in enumerate(("ok", "kineto", "ProfilerStep", "ledger", "gains", "5")):
            profile.frame(f"mine.py(1{place}): {name}", at + place, at + 990_000 - place)
        profile.annotation("sync", at + 10, at + 300_000)
        profile.launch(at + 580_000, at + 590_000, at + 700_000, at + 900_000)
    found = api.explained(gpuwhy.load(str(profile.write(tmp_path / "p.json"))))
    plain, told = found.report, redacted(found).report
    assert [check.level for check in told.trust] == [check.level for check in plain.trust]
    assert [check.detail for check in told.trust] == [check.detail for check in plain.trust]
    assert (told.window, told.source.format, told.withheld) == (plain.window, plain.source.format, plain.withheld)


def test_a_saved_report_is_redacted_as_its_profile_is(tmp_path: Path) -> None:
    saved = tmp_path / "saved.json"
    saved.write_text(encode(gpuwhy.explain(str(secretive(tmp_path)), top=9)))
    for form in ((), ("--json",), ("--html", str(tmp_path / "c.html"))):
        told = command("compare", str(saved), str(saved), "--redact", *form)
        assert told.returncode == 0, told.stderr
        assert not SECRET.search(told.stdout), SECRET.findall(told.stdout)
    assert not SECRET.search((tmp_path / "c.html").read_text())


def test_times_stay_on_the_clock_that_they_are_on(tmp_path: Path) -> None:
    path = secretive(tmp_path)
    starts = []
    for redact in ((), ("--redact",)):
        out = tmp_path / "out.json"
        assert command("explain", str(path), "--perfetto", str(out), *redact).returncode in (0, 3)
        events = json.loads(out.read_text())["traceEvents"]
        starts.append([event["ts"] for event in events if event.get("cat") == "gpuwhy"])
    assert starts[0] == starts[1]


@needs_shared
def test_public_profiles_show_no_path_user_or_host(tmp_path: Path) -> None:
    """Absolute paths, and every file that is neither a public library's nor the standard library's."""
    looked = 0
    for path in sorted((SHARED / "traces").rglob("*.json*")):
        if path.stat().st_size > 150_000:
            continue
        try:
            found = api.explained(gpuwhy.load(str(path)), top=5)
        except GpuwhyError:
            continue
        hidden = redacted(found)
        text = encode(hidden.report)
        assert hidden.parts is not None
        text += "\n".join(hidden.parts.basis.timeline.names)
        assert not re.search(r"/(home|root|tmp|opt|usr|workspace|mnt|data|sgl-workspace)/", text), path
        for name in found.parts.basis.timeline.names if found.parts is not None else ():
            file, found_frame, _ = name.partition(".py(")
            own = found_frame and "/" in file and public_part(f"{file}.py") is None
            assert not (own and f"{file}.py" in text), (path, file)
        for word in (getpass.getuser(), socket.gethostname()):
            assert not re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text)
        looked += 1
    assert looked > 20


def test_a_compressed_profile_of_tracks_holds_none(tmp_path: Path) -> None:
    out = tmp_path / "p.json.gz"
    assert command("explain", str(secretive(tmp_path)), "--redact", "--perfetto", str(out)).returncode in (0, 3)
    assert not SECRET.search(gzip.decompress(out.read_bytes()).decode())


@pytest.mark.parametrize("name", ["zebra", "zb"])
def test_a_file_whose_name_is_a_plain_word_is_not_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a relative path of one short or lower-case word, which sentences may hold for other reasons."""
    (tmp_path / name).write_bytes(secretive(tmp_path).read_bytes())
    monkeypatch.chdir(tmp_path)
    report = redacted(api.explained(api.load(name))).report
    assert report.source.files == ["file-1"]


@pytest.mark.parametrize("length", [60, 68, 69, 70, 79, 80, 81, 200])
def test_an_annotation_that_the_verdict_cuts_is_not_named(length: int, tmp_path: Path) -> None:
    """The verdict cuts it with the word `annotation` before it, tables cut it alone."""
    name = ("zebra " * 40)[: length - 1] + "z"
    profile = Profile()
    for step in range(6):
        at = step * 1_000_000
        profile.step(step + 1, at, at + 1_000_000)
        profile.annotation(name, at + 1_000, at + 700_000)
        profile.operator("aten::mm", at + 710_000, at + 790_000, inputs=[("float", [64, 64]), ("float", [64, 64])])
        profile.launch(at + 720_000, at + 730_000, at + 740_000, at + 760_000, name="sm90_xmma_gemm_f32f32")
    path = tmp_path / "one.json.gz"
    profile.write(path)
    found = api.explained(api.load(str(path)))
    assert "zebra" in found.report.verdict.text
    assert "zebra" not in encode(redacted(found).report)
