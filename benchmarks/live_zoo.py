"""Every labelled workload under `gpuwhy run`: is the first finding the planted one, the throughput the script's own?

    python benchmarks/live_zoo.py FOLDER OUT [NAME...]

FOLDER holds cases.py; OUT gets what was found, as live.json, and the runs' reports. Needs a CUDA GPU.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def one(folder: str, name: str, out: Path) -> dict[str, Any]:
    """Run one workload, and hold the report against what it says itself."""
    runs = out / "runs" / name
    begun = time.time()
    program = [str(HERE / "live_case.py"), folder, name]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "gpuwhy",
            "run",
            "--json",
            "--folder",
            str(runs),
            "-o",
            str(out / f"{name}.json"),
            *program,
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode or not (out / f"{name}.json").exists():
        return {"name": name, "error": (done.stderr or done.stdout)[-600:]}
    own = json.loads(done.stdout.strip().splitlines()[-1])
    report = json.loads((out / f"{name}.json").read_text())
    told = report["run"]["throughput"]
    findings = [finding["cause"] for finding in report["findings"]]
    return {
        **own,
        "first": findings[0] if findings else report["verdict"]["cause"],
        "findings": findings,
        "healthy": report["verdict"]["healthy"],
        "told_step_s": told["step_ns"]["mean"] / 1e9,
        "ratio": told["step_ns"]["mean"] / 1e9 / own["step_s"],
        "same_steps": same_steps(runs, own),
        "told_samples": told["samples_per_step"],
        "steps_by": told["steps_by"],
        "clock": told["clock"],
        "notes": [note for process in report["run"]["processes"] for note in process["notes"]],
        "withheld": report["withheld"],
        "took_s": time.time() - begun,
    }


def same_steps(runs: Path, own: dict[str, Any]) -> float | None:
    """The probe's time over the program's own, of the very steps that the program timed."""
    from gpuwhy.run.journals import read
    from gpuwhy.run.steps import steps_of

    for journal in read(next(runs.glob("*/run.json")).parent):
        steps = steps_of(journal)
        if steps is not None:
            last = steps.number >= steps.number[-1] + 2 - own["steps"]
            known = last & (steps.device_ns >= 0)
            return float(steps.device_ns[known].mean()) / 1e9 / own["step_s"]
    return None


def main(folder: str, out: Path, names: list[str]) -> None:
    sys.path.insert(0, folder)
    from cases import CASES

    out.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in names or list(CASES):
        try:
            row = one(folder, name, out)
        except Exception as error:
            row = {"name": name, "error": repr(error)[:600]}
        rows.append(row)
        (out / "live.json").write_text(json.dumps(rows, indent=1))
        if "error" in row:
            print(f"{name:22} {row['error']}", flush=True)
            continue
        right = "ok " if row["first"] == row["cause"] else "BAD"
        print(
            f"{name:22} {right} {row['cause']} / {row['findings']} step {row['step_s'] * 1e3:.3f} ms, told × "
            f"{row['ratio']:.4f} ({row['clock']}, {row['steps_by']}), same steps × {row['same_steps']:.4f}, "
            f"samples {row['samples']} / "
            f"{row['told_samples']}, "
            f"{row['took_s']:.0f} s {row['notes']}",
            flush=True,
        )
    if os.environ.get("KEEP_RUNS") is None:
        shutil.rmtree(out / "runs", ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
