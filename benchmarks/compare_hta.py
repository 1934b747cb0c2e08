"""Time gpuwhy and Holistic Trace Analysis (HTA) on one large profile, in turns.

    python benchmarks/compare_hta.py GROWN.json.gz [--pairs 3] [--floor] [--json OUT.json]
    python benchmarks/compare_hta.py GROWN.json.gz --only gpuwhy

Run it with the interpreter of an environment that has gpuwhy. HTA gets an environment of its own, made once.

Each measurement is one fresh process, limited to two cores. It gives wall seconds, CPU seconds (user and
system, of the process and all its children) and the peak of resident memory, summed over the whole process
tree every 25 ms: the resident pages of one process, or, where there are several, with each page that they
share counted once (PSS).
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import venv
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from grow_profile import add_rank
from medians import interval_of_median

HTA_VERSION = "0.5.0"
HTA_ENV = Path("~/.cache/gpuwhy-benchmarks/hta")
# Installed without dependencies: HTA asks for JupyterLab, which plays no part here.
HTA_PACKAGES = [
    f"HolisticTraceAnalysis=={HTA_VERSION}",
    "pandas==3.1.1; python_version >= '3.11'",
    "pandas==2.3.3; python_version < '3.11'",
    "numpy==2.4.6; python_version >= '3.11'",
    "numpy==2.2.6; python_version < '3.11'",
    "networkx==3.6.1; python_version >= '3.11'",
    "networkx==3.4.2; python_version < '3.11'",
    "pytz==2025.2; python_version < '3.11'",
    "tzdata==2025.2; python_version < '3.11'",
    "plotly==7.1.0",
    "narwhals==2.29.0",
    "packaging==26.4",
    "pydot==4.0.1",
    "pyparsing==3.3.3",
    "python-dateutil==2.9.0.post0",
    "six==1.17.0",
    "psutil==7.2.2",
    "PyYAML==6.0.4",
]

HTA_CODE = """
import json, sys, time
from hta.trace_analysis import TraceAnalysis
began = time.perf_counter()
analysis = TraceAnalysis(trace_dir=sys.argv[1])
loaded = time.perf_counter()
temporal = analysis.get_temporal_breakdown(visualize=False)
idle, _ = analysis.get_idle_time_breakdown(visualize=False)
done = time.perf_counter()
print(json.dumps({
    "load seconds": loaded - began,
    "breakdown seconds": done - loaded,
    "temporal": json.loads(temporal.to_json(orient="records")),
    "idle": json.loads(idle.to_json(orient="records")),
}))
"""

GUNZIP_CODE = """
import sys
from isal import igzip
with igzip.open(sys.argv[1]) as file:
    while file.read(1 << 22):
        pass
"""

DECODE_CODE = """
import sys
from typing import Union
import msgspec
from isal import igzip

class Args(msgspec.Struct, gc=False):
    correlation: int = 0
    external: int = msgspec.field(default=0, name="External id")

class Event(msgspec.Struct, gc=False):
    ph: str
    pid: Union[int, str]
    tid: Union[int, str]
    ts: float
    name: str = ""
    cat: str = ""
    dur: float = 0.0
    id: int = 0
    args: Union[Args, None] = None

class Profile(msgspec.Struct):
    traceEvents: list[Event]

with igzip.open(sys.argv[1]) as file:
    text = file.read()
print(len(msgspec.json.decode(text, type=Profile).traceEvents))
"""


@dataclass
class Tool:
    name: str
    command: list[str]
    warm: list[str]
    """A command that loads the same modules, so that no measurement compiles them or waits for the disk."""


@dataclass
class Run:
    tool: str
    turn: int
    wall_s: float
    cpu_s: float
    peak_bytes: int
    peak_of_largest_bytes: int
    processes: int
    output: str = ""


def tree(root: int) -> list[int]:
    """Ids of a process and of all its descendants."""
    found, at = [root], 0
    while at < len(found):
        try:
            for thread in os.listdir(f"/proc/{found[at]}/task"):
                with open(f"/proc/{found[at]}/task/{thread}/children") as file:
                    found.extend(map(int, file.read().split()))
        except OSError:
            pass
        at += 1
    return found


def resident(pids: list[int]) -> int:
    """Bytes of memory in use by these processes; pages that several share are counted once."""
    total = 0
    for pid in pids:
        try:
            if len(pids) == 1:
                with open(f"/proc/{pid}/statm") as file:
                    total += int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            else:
                with open(f"/proc/{pid}/smaps_rollup") as file:
                    total += next(int(line.split()[1]) for line in file if line.startswith("Pss:")) * 1024
        except (OSError, StopIteration, IndexError):
            pass  # it ended in between
    return total


def measure(tool: Tool, turn: int, cores: set[int], interval: float = 0.025) -> Run:
    """Run a tool once, in a fresh process."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began = time.perf_counter()
        child = subprocess.Popen(tool.command, stdout=out, stderr=err)
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(child.pid, cores)  # before it has threads or children, which inherit it
        peak, most = 0, 1
        while True:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                wall = time.perf_counter() - began
                break
            pids = tree(child.pid)
            peak, most = max(peak, resident(pids)), max(most, len(pids))
            time.sleep(interval)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if child.returncode:
            tail = err.read().decode(errors="replace").strip()[-2000:]
            spent = f"{wall:.1f} s, CPU {usage.ru_utime + usage.ru_stime:.1f} s, peak {peak / 1e9:.2f} GB"
            raise RuntimeError(f"{tool.name} ended with {child.returncode} ({spent})\n{tail}")
        largest = usage.ru_maxrss * 1024
        return Run(
            tool=tool.name,
            turn=turn,
            wall_s=wall,
            cpu_s=usage.ru_utime + usage.ru_stime,
            peak_bytes=peak,
            peak_of_largest_bytes=largest,
            processes=most,
            output=out.read().decode(errors="replace").strip()[-4000:],
        )


def hta_python(env: Path) -> Path:
    """The interpreter of HTA's environment, which is made if it is not there in the wanted versions."""
    python = env / "bin" / "python"
    stamp = env / "installed.txt"
    wanted = "\n".join(HTA_PACKAGES)
    if not (stamp.exists() and stamp.read_text() == wanted):
        print(f"installing HTA {HTA_VERSION} into {env}", file=sys.stderr)
        venv.create(env, clear=True, with_pip=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "install", "--no-deps", *HTA_PACKAGES], check=True)
        stamp.write_text(wanted)
    return python


def with_rank(path: Path, folder: Path) -> Path:
    """The profile itself if it names a rank, else a copy that names rank 0: HTA wants one."""
    copy = folder / f"{path.name.removesuffix('.json.gz')}.rank0.json.gz"
    with gzip.open(path) as source:
        head = source.read(1 << 20)
        if b'"traceEvents": [' not in head:
            sys.exit(f"{path}: no list of events in its first MiB")
        if b'"rank": ' in head.partition(b'"traceEvents": [')[0]:
            return path
        if copy.exists() and copy.stat().st_mtime > path.stat().st_mtime:
            return copy
        print(f"writing {copy}: the profile with a rank", file=sys.stderr)
        half = copy.with_suffix(".part")
        packer = zlib.compressobj(6, wbits=31)
        with half.open("wb") as target:
            block = add_rank(head, 0)
            while block:
                target.write(packer.compress(block))
                block = source.read(1 << 22)
            target.write(packer.flush())
        half.rename(copy)
    return copy


def size_of(path: Path) -> tuple[int, int]:
    """Bytes of JSON and number of events of a profile (which also brings the file into the page cache)."""
    size = events = 0
    rest = b""
    with gzip.open(path) as file:
        while block := file.read(1 << 22):
            size += len(block)
            text = rest + block
            events += text.count(b'"ph": "')
            rest = text[-6:]
    return size, events


def version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    model = ""
    memory = 0
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            memory = int(line.split()[1]) * 1024
    return {
        "cpu": model or platform.processor(),
        "cores": os.cpu_count(),
        "memory_bytes": memory,
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in ("gpuwhy", "numpy", "msgspec", "isal")},
    }


def tools(path: Path, options: argparse.Namespace, folder: Path) -> tuple[list[Tool], dict[str, Any]]:
    """What to measure; and HTA's versions."""
    result: list[Tool] = []
    hta: dict[str, Any] = {}
    python = sys.executable
    if options.only in (None, "gpuwhy"):
        if version("gpuwhy") is None:
            print("gpuwhy is left out: this interpreter does not have it", file=sys.stderr)
        else:
            command = [python, "-m", "gpuwhy", "explain", str(path), "--json", "--output", os.devnull]
            result.append(Tool("gpuwhy", command, [python, "-m", "gpuwhy", "--help"]))
    if options.only in (None, "hta") and not options.skip_hta:
        env_python = str(hta_python(options.env.expanduser().resolve()))
        listing = subprocess.run(
            [env_python, "-m", "pip", "--disable-pip-version-check", "list", "--format", "json"],
            check=True,
            capture_output=True,
        )
        wanted = {"HolisticTraceAnalysis", "pandas", "numpy"}
        packages = {one["name"]: one["version"] for one in json.loads(listing.stdout)}
        hta = {name: number for name, number in packages.items() if name in wanted}
        (folder / path.name).symlink_to(path.resolve())
        command = [env_python, "-c", HTA_CODE, str(folder)]
        result.append(Tool("HTA", command, [env_python, "-c", "import hta.trace_analysis"]))
    if options.floor:
        if version("isal") is None or version("msgspec") is None:
            print("the floor is left out: this interpreter lacks isal or msgspec", file=sys.stderr)
        else:
            warm = [python, "-c", "import isal.igzip, msgspec"]
            result.append(Tool("floor: decompress", [python, "-c", GUNZIP_CODE, str(path)], warm))
            result.append(Tool("floor: decompress and decode", [python, "-c", DECODE_CODE, str(path)], warm))
    return result, hta


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def summarise(runs: list[Run]) -> dict[str, Any]:
    """Median, least and most of each tool; ratios of HTA to gpuwhy, turn by turn."""
    figures: dict[str, Callable[[Run], float]] = {
        "wall_s": lambda run: run.wall_s,
        "cpu_s": lambda run: run.cpu_s,
        "peak_bytes": lambda run: run.peak_bytes,
    }
    names = list(dict.fromkeys(run.tool for run in runs))
    result: dict[str, Any] = {
        "tools": {
            name: {key: spread([of(run) for run in runs if run.tool == name]) for key, of in figures.items()}
            for name in names
        },
        "ratios": {},
    }
    by_turn = {(run.tool, run.turn): run for run in runs}
    pairs = [
        (by_turn["HTA", turn], by_turn["gpuwhy", turn])
        for turn in sorted({run.turn for run in runs})
        if ("HTA", turn) in by_turn and ("gpuwhy", turn) in by_turn
    ]
    if pairs:
        for key, of in figures.items():
            ratios = [of(theirs) / of(ours) for theirs, ours in pairs]
            low, high = interval_of_median(ratios, draws=10_000)
            middle = statistics.median(ratios)
            result["ratios"][key] = {"median": middle, "low": low, "high": high, "all": ratios}
    return result


def markdown(summary: dict[str, Any], facts: dict[str, Any]) -> str:
    def cell(values: dict[str, float], form: Callable[[float], str]) -> str:
        low, middle, high = (form(values[key]) for key in ("min", "median", "max"))
        return middle if low == high else f"{middle} ({low}–{high})"

    def seconds(value: float) -> str:
        return f"{value:.0f} s" if value >= 100 else f"{value:.1f} s"

    def gigabytes(value: float) -> str:
        return f"{value / 1e9:.2f} GB"

    title = f"{facts['events'] / 1e6:.2f} M events, {facts['json_bytes'] / 1e9:.2f} GB JSON"
    title += f" ({facts['file_bytes'] / 1e6:.0f} MB gzip), {facts['limit_cores']} cores"
    lines = [f"| {title} | wall | CPU | peak memory |", "|---|---|---|---|"]
    for name, values in summary["tools"].items():
        cells = [cell(values[key], seconds) for key in ("wall_s", "cpu_s")]
        cells.append(cell(values["peak_bytes"], gigabytes))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    if summary["ratios"]:
        shown = (summary["ratios"][key] for key in ("wall_s", "cpu_s", "peak_bytes"))
        cells = [f"{one['median']:.1f}× ({one['low']:.1f}–{one['high']:.1f})" for one in shown]
        lines.append(f"| HTA / gpuwhy, median of pairs (95 % interval) | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time gpuwhy and HTA on one large profile, in turns.")
    parser.add_argument("profile", type=Path)
    add = parser.add_argument
    add("--pairs", type=int, default=3, help="turns; in each, every tool runs once (default: %(default)s)")
    add("--json", type=Path, metavar="OUT", help="write all figures to this file")
    add("--env", type=Path, default=HTA_ENV, help="HTA's environment (default: %(default)s)")
    add("--work", type=Path, help="folder for the copy with a rank (default: the profile's own)")
    add("--only", choices=["gpuwhy", "hta"], help="measure just this one")
    add("--skip-hta", action="store_true", help="everything but HTA")
    add("--floor", action="store_true", help="also time decompressing and decoding alone")
    options = parser.parse_args(argv)
    if not sys.platform.startswith("linux"):
        sys.exit("compare_hta reads /proc, so it needs Linux")

    cores = set(sorted(os.sched_getaffinity(0))[:2])
    path: Path = options.profile
    if options.only != "gpuwhy" and not options.skip_hta:
        path = with_rank(path, options.work or path.parent)
    json_bytes, events = size_of(path)
    facts: dict[str, Any] = {
        "profile": path.name,
        "events": events,
        "json_bytes": json_bytes,
        "file_bytes": path.stat().st_size,
        "limit_cores": len(cores),
        "machine": machine(),
    }
    runs: list[Run] = []
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        chosen, facts["hta"] = tools(path, options, Path(folder))
        for tool in chosen:
            subprocess.run(tool.warm, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for turn in range(options.pairs):
            for tool in list(chosen if turn % 2 == 0 else reversed(chosen)):
                print(f"turn {turn + 1}: {tool.name} …", end=" ", file=sys.stderr, flush=True)
                try:
                    run = measure(tool, turn, cores)
                except RuntimeError as error:
                    print(f"left out from here on: {error}", file=sys.stderr)
                    chosen.remove(tool)
                    failed.append(str(error))
                    continue
                runs.append(run)
                print(
                    f"{run.wall_s:.2f} s, CPU {run.cpu_s:.2f} s, peak {run.peak_bytes / 1e9:.2f} GB"
                    f" (largest of {run.processes}: {run.peak_of_largest_bytes / 1e9:.2f} GB)",
                    file=sys.stderr,
                )
    if not runs:
        print("nothing was measured", file=sys.stderr)
        return 1
    summary = summarise(runs)
    print(markdown(summary, facts))
    if options.json:
        memory = "sum over the process tree every 25 ms: RSS of one process, PSS where there are several"
        record = {
            **facts,
            "peak_bytes": memory,
            **summary,
            "runs": [asdict(run) for run in runs],
            "failed": failed,
        }
        options.json.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
