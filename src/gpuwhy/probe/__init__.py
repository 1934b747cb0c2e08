"""What runs inside the watched program. It imports the standard library only, and torch if the program has it.

It is loaded by `hook/sitecustomize.py` when Python starts, before the program, and then waits for torch to be imported.
From then on it notes when steps begin, what the loop waited for, and what else took its time, in two files of its own
(`journal.py`), and records a few steps with torch's profiler. Nothing is analysed here: `gpuwhy.run` does that, in a
process of its own.

Three rules hold for every line: a failure of the probe switches the probe off and never reaches the program
(`recorder.py`); no thread, no signal, no random number and no output is used; no frame of the probe shows in a
traceback of the program (`wrap.py`).
"""

from __future__ import annotations

from .recorder import Recorder

FOLDER = "GPUWHY_RUN"
"""The environment variable that names the folder of the run."""

current: Recorder | None = None
"""What records in this process, if anything does."""


def start(folder: str) -> Recorder:
    """Watch this process from now on; what is noted goes into `folder`, which exists."""
    global current  # noqa: PLW0603 – one process, one recorder
    from . import forward
    from .hooks import watch_imports

    if current is not None:  # its hooks are set
        current.reopen(folder)
        forward.watch_again()
        return current
    recorder = current = Recorder(folder)
    recorder.guard(watch_imports, recorder)
    return recorder


def stop() -> None:
    """Watch no longer, until the next `start`."""
    if current is not None:
        current.guard(current.finish)
        current.off = True


def step(samples: int | None = None, tokens: int | None = None) -> None:
    """A step has ended. Does nothing in a program that is not watched."""
    if current is not None:
        current.guard(current.user_step, samples, tokens)
