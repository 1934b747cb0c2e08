"""The installed version of gpuwhy."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def own_version() -> str:
    """The version, or `unknown` where gpuwhy runs without being installed."""
    try:
        return version("gpuwhy")
    except PackageNotFoundError:
        return "unknown"
