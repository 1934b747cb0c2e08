"""What all tests share: the skip of GPU tests, the folder of recorded profiles, Hypothesis profiles."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

os.environ["GPUWHY_CACHE"] = tempfile.mkdtemp(prefix="gpuwhy-tests-")
"""Published peaks everywhere, whatever `gpuwhy ceilings` measured on this machine."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in the background deaf to interrupts, and the programs under test would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED = Path(os.environ.get("GPUWHY_SHARED") or Path(__file__).resolve().parents[2] / "shared")
"""Recorded profiles and measured truths: too large for the repository, so not everybody has them."""

NO_SHARED = f"no folder {SHARED}: name the folder of recorded profiles in GPUWHY_SHARED"

needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason=NO_SHARED)


def shared_files(pattern: str) -> list[object]:
    """Values for `parametrize`: the shared files that match, named by path; one skipped test where none does.

    @pytest.mark.parametrize("path", shared_files("traces/**/*.json.gz"))
    """
    files = sorted(path for path in SHARED.glob(pattern) if path.is_file()) if SHARED.is_dir() else []
    if files:
        return [pytest.param(path, id=path.relative_to(SHARED).as_posix()) for path in files]
    reason = f"nothing matches {pattern} in {SHARED}" if SHARED.is_dir() else NO_SHARED
    return [pytest.param(None, id=pattern, marks=pytest.mark.skip(reason=reason))]


BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


def load_benchmark(name: str) -> Any:
    """A script of benchmarks/ as a module."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for the small profiles of all tests of a file."""
    return tmp_path_factory.mktemp("profiles")


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of recorded profiles; the test is skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(NO_SHARED)
    return SHARED


@pytest.hookimpl(trylast=True)  # after deselection: `-m 'not gpu'` then never imports torch
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    wanting = [item for item in items if item.get_closest_marker("gpu")]
    reason = _why_no_gpu() if wanting else None
    if reason:
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason=reason))


def _why_no_gpu() -> str | None:
    try:
        import torch
    except ImportError:
        return "needs a GPU: torch is not installed"
    return None if torch.cuda.is_available() else "needs a GPU: torch sees no CUDA device"
