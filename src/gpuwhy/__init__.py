"""gpuwhy: why a GPU is not doing more.

    import gpuwhy
    report = gpuwhy.explain("profile.json.gz")
    for entry in report.devices[0].ledger:
        print(entry.account, entry.ns)

Everything is imported when it is first used, so that `gpuwhy --help` answers at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuwhy.api import explain, load
    from gpuwhy.errors import GpuwhyError
    from gpuwhy.probe import step
    from gpuwhy.reports.model import Report
    from gpuwhy.run.record import record
    from gpuwhy.timeline import Timeline

__all__ = ["GpuwhyError", "Report", "Timeline", "explain", "load", "record", "step"]

_HOME = {
    "GpuwhyError": "gpuwhy.errors",
    "Report": "gpuwhy.reports.model",
    "Timeline": "gpuwhy.timeline",
    "explain": "gpuwhy.api",
    "load": "gpuwhy.api",
    "load_ipython_extension": "gpuwhy.notebook",
    "record": "gpuwhy.run.record",
    "step": "gpuwhy.probe",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'gpuwhy' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
