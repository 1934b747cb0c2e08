"""How long gpuwhy takes from process start, against the imports that it cannot do without, in turns.

    python benchmarks/startup.py [PROFILE.json.gz] [--turns 15]

Compares `gpuwhy --help` with `import typer`, and `gpuwhy explain PROFILE` (without one: the profile that ships with
gpuwhy, 500 kB) with importing NumPy, msgspec, typer and rich. Prints medians, and the median of the ratios of each
turn with a bootstrap 95 % interval.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from importlib.resources import files

from medians import interval_of_median

FLOOR = "import numpy, msgspec, typer, isal.isal_zlib, rich.console"


def seconds(command: list[str]) -> float:
    """Wall time of one process."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def compare(name: str, ours: list[str], floor: list[str], turns: int) -> None:
    """Time two commands in turns (A B, B A, …) and print what came out."""
    for command in (ours, floor):
        seconds(command)
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(turns):
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            times[which].append(seconds((ours, floor)[which]))
    ratios = [a / b for a, b in zip(*times, strict=True)]
    low, high = interval_of_median(ratios)
    print(
        f"{name:<24} {statistics.median(times[0]):.3f} s, floor {statistics.median(times[1]):.3f} s, "
        f"ratio {statistics.median(ratios):.2f} [{low:.2f}, {high:.2f}], best {min(times[0]):.3f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile", nargs="?", default=str(files("gpuwhy") / "data" / "demo.pt.trace.json.gz"))
    parser.add_argument("--turns", type=int, default=15)
    options = parser.parse_args()
    gpuwhy = [sys.executable, "-m", "gpuwhy"]
    compare("gpuwhy --help", [*gpuwhy, "--help"], [sys.executable, "-c", "import typer"], options.turns)
    compare("gpuwhy explain", [*gpuwhy, "explain", options.profile], [sys.executable, "-c", FLOOR], options.turns)


if __name__ == "__main__":
    main()
