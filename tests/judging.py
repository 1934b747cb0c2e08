"""How well a small profile's busy time was used, by the whole way from its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from events import Profile, Script

import gpuwhy
from gpuwhy.reports.roofline_model import RooflineInfo


def judged(of: Profile | Script, folder: Path, window: Any = "all", **options: Any) -> RooflineInfo:
    profile = of.profile if isinstance(of, Script) else of
    report = gpuwhy.explain(str(profile.write(folder / "profile.json")), window=window, **options)
    assert report.devices[0].roofline is not None
    return report.devices[0].roofline
