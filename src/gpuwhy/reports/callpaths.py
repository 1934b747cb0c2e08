"""Call paths: the calls around something, and which of them say where in the user's program it happened."""

from __future__ import annotations

import re

from gpuwhy.steps import STEP_MARK
from gpuwhy.timeline import Timeline

LONGEST_PATH = 200
"""Calls of a path that are told, the innermost ones."""
LIBRARY = re.compile(
    r"<built-in|<string>|<frozen|(torch|torchvision|contextlib|functools|threading|runpy)\b.*\.py\(|<eval"
)
"""Python frames that say little about where in the user's program something happened."""
LAUNCH_CALL = re.compile(r"(cuda|cu|hip)[A-Z]\w+$")


def call_path(timeline: Timeline, piece: int) -> list[str]:
    """Names of the calls around a piece, outermost first, itself last, without the marks of steps."""
    names = (timeline.names[timeline.calls.name[row]] for row in reversed(timeline.path(piece, LONGEST_PATH)))
    return [name for name in names if not STEP_MARK.match(name)]


def callers(path: list[str], name: str) -> list[str]:
    """The path without repeats, without the call itself, the launch call and, if others remain, library frames."""
    plain = [part.removeprefix("autograd::engine::evaluate_function: ") for part in path]
    kept = [part for i, part in enumerate(plain) if part != name and (not i or part != plain[i - 1])]
    kept = [part for part in kept if not LAUNCH_CALL.match(part)]
    return [part for part in kept if not LIBRARY.match(part)] or kept
