"""The magic for notebooks: `%load_ext gpuwhy`, then `%%gpuwhy` above a cell records it and explains it below."""

from __future__ import annotations

import shlex
from typing import Any

from gpuwhy.errors import GpuwhyError


def load_ipython_extension(shell: Any) -> None:
    """Called by IPython for `%load_ext gpuwhy`."""

    def gpuwhy(line: str, cell: str) -> None:
        """%%gpuwhy [--no-profile] [--profile-steps N]: record this cell, and say why the GPU is not doing more."""
        from gpuwhy.run.record import record

        profile, steps = options(line)
        with record(profile=profile, profile_steps=steps):
            shell.run_cell(cell).raise_error()

    shell.register_magic_function(gpuwhy, magic_kind="cell", magic_name="gpuwhy")


def options(line: str) -> tuple[bool, int]:
    """Whether to profile, and how many steps, as said behind the magic."""
    words = shlex.split(line)
    profile, steps = True, 6
    while words:
        word = words.pop(0)
        if word == "--no-profile":
            profile = False
        elif word == "--profile-steps" and words and words[0].isdigit():
            steps = int(words.pop(0))
        else:
            raise GpuwhyError(f"%%gpuwhy {word}: not known", hint="%%gpuwhy [--no-profile] [--profile-steps N]")
    return profile, steps
