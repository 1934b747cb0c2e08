"""Build hook: compiles `scan.c` and `longest.c` to shared libraries beside them and puts those into the wheel.

The libraries are plain C, loaded with ctypes: they depend on the platform and not on the version of Python, so
the wheel's tag is `py3-none-PLATFORM`. Where they cannot be compiled the wheel is `py3-none-any`, and gpuwhy's
Python code gives the same results in more time. Environment:

    CC, CFLAGS, LDFLAGS         the compiler (no other is tried then) and additional flags
    GPUWHY_REQUIRE_COMPILED=1   fail instead of building a pure wheel
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

SOURCES = (Path("src/gpuwhy/sources/scan/scan.c"), Path("src/gpuwhy/whatif/longest.c"))
SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
FLAGS = ["-O3", "-std=c11", "-shared", *([] if sys.platform == "win32" else ["-fPIC"])]


class NotCompiledError(Exception):
    """The reason why there is no library, in one line."""


class CompileLibraries(BuildHookInterface):  # type: ignore[type-arg]
    """Runs before each wheel is built, editable ones too: there the libraries are used where they lie."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        for source in SOURCES:
            library = source.with_name(f"_{source.stem}{SUFFIX}")
            try:
                compile_library(source, library, root=Path(self.root))
            except NotCompiledError as reason:
                Path(self.root, library).unlink(missing_ok=True)  # of an earlier source
                if os.environ.get("GPUWHY_REQUIRE_COMPILED") == "1":
                    self.app.abort(f"gpuwhy: {source.name} was not compiled, and GPUWHY_REQUIRE_COMPILED=1 ({reason})")
                self.app.display_warning(
                    f"gpuwhy: {source.name} was not compiled, so slower Python code will be used ({reason})"
                )
            else:
                build_data["artifacts"].append(library.as_posix())
                build_data["pure_python"] = False
                build_data["tag"] = f"py3-none-{platform_tag()}"


def compile_library(source: Path, library: Path, root: Path) -> None:
    """Compile with the first compiler that manages to; paths are relative to `root`."""
    if not (root / source).is_file():
        raise NotCompiledError(f"{source} does not exist")
    made = library.with_suffix(f".{os.getpid()}.tmp")  # moved into place whole: a scan may be running
    cflags, ldflags = (shlex.split(os.environ.get(name, "")) for name in ("CFLAGS", "LDFLAGS"))
    failures = []
    try:
        for compiler in compilers():
            command = [*compiler, *FLAGS, *cflags, str(source), "-o", str(made), *ldflags]
            failure = run(command, root)
            if failure is None:
                (root / made).replace(root / library)
                return
            failures.append(failure)
    finally:
        (root / made).unlink(missing_ok=True)
    raise NotCompiledError(failures[0] if failures else "no C compiler found: install one, or name it in CC")


def run(command: list[str], folder: Path) -> str | None:
    """What went wrong, in one line; None if nothing did."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return f"{command[0]}: {next((line for line in lines if 'error' in line), lines[0])}"


def compilers() -> list[list[str]]:
    """$CC alone where it is set; else what built this Python, cc, gcc and clang, as far as they exist."""
    if os.environ.get("CC"):
        return [shlex.split(os.environ["CC"])]
    candidates = [shlex.split(sysconfig.get_config_var("CC") or ""), ["cc"], ["gcc"], ["clang"]]
    return [command for command in candidates if command and shutil.which(command[0])]


def platform_tag() -> str:
    """This platform as wheels name it; manylinux tags are for tools that check the library first."""
    platforms = (tag.platform for tag in sys_tags())
    return next(platform for platform in platforms if not platform.startswith(("manylinux", "musllinux")))
