"""One of the labelled workloads as a program of its own: `python live_case.py FOLDER NAME [SECONDS]`.

Runs its steps as a training script would, and says at its end what a step took by its own clock: from an idle device to
an idle device, after the steps in which `gpuwhy run` records its profile.
"""

from __future__ import annotations

import json
import sys
import time

import torch

EARLY, LEAST = 45, 30
"""Steps before the clock, and with it."""


def main(folder: str, name: str, seconds: float) -> None:
    sys.path.insert(0, folder)
    from cases import CASES

    make, cause, _ = CASES[name]
    case = make(False)
    for number in range(EARLY):
        case.step(number)
        if number == EARLY - 12:
            torch.cuda.synchronize()
            begun = time.perf_counter()
    torch.cuda.synchronize()
    steps = max(LEAST, int(seconds / ((time.perf_counter() - begun) / 11)))
    begun = time.perf_counter()
    for number in range(steps):
        case.step(EARLY + number)
    torch.cuda.synchronize()
    took = (time.perf_counter() - begun) / steps
    case.close()
    print(json.dumps({"name": name, "cause": cause, "steps": steps, "step_s": took, "samples": case.samples}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]) if len(sys.argv) > 3 else 3.0)
