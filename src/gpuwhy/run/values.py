"""Types of recorded values. Bounds are checked when a recording is read: arithmetic cannot overflow after that."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Whole = Annotated[int, Meta(ge=0, le=1 << 62)]
Amount = Annotated[float, Meta(ge=0, le=1e18)]
Text = Annotated[str, Meta(max_length=256)]
