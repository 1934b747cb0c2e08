"""Inside a measured program: runs blocks of steps when it is told to, and answers how long they took.

    from gpuwhy.experiments.blocks import serve
    serve(step)

The program is started by `pairs.compare`, which holds the other ends of the two pipes that are named in the
environment. Started by anyone else, it says so. Imports the standard library only, and torch if the program has it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

PIPES = "GPUWHY_BLOCKS"
"""The environment variable: numbers of the pipes to read from and to write to."""
READY = "ready"
"""What a program says first."""


def serve(step: Callable[[], object]) -> None:
    """Run blocks of `step` until the other side is done. Raises RuntimeError where nobody asks."""
    pipes = os.environ.get(PIPES)
    if not pipes:
        raise RuntimeError("this program runs blocks of steps for gpuwhy.experiments.pairs.compare: start it with that")
    asked, answered = (int(number) for number in pipes.split(","))
    with os.fdopen(asked) as questions, os.fdopen(answered, "w") as answers:
        answers.write(f"{READY}\n")
        answers.flush()
        for question in questions:
            answers.write(f"{seconds_of(step, int(question))!r}\n")
            answers.flush()


def seconds_of(step: Callable[[], object], count: int) -> float:
    """Seconds that some steps take: from an idle device to an idle device, where the program uses one."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_available() or not cuda.is_initialized():
        begun = time.perf_counter()
        for _ in range(count):
            step()
        return time.perf_counter() - begun
    cuda.synchronize()
    begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(count):
        step()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3
