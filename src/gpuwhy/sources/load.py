"""Any number of inputs of any known format → one `Timeline`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuwhy.errors import GpuwhyError
from gpuwhy.sources import compact, kineto
from gpuwhy.sources.kineto import EXPORT_HINT
from gpuwhy.sources.merge import merge
from gpuwhy.sources.open import Opened
from gpuwhy.sources.scan import NotEvents, scan
from gpuwhy.timeline import Timeline

Progress = Callable[[str, int, int | None], None]
"""Called with (file, bytes read from it so far, its size or None where that is not known)."""

OTHER_FORMATS = {
    "sqlite": "an SQLite database (Nsight Systems exports are); gpuwhy reads PyTorch profiles so far",
    "xplane": "an XLA profile (xplane.pb); gpuwhy reads PyTorch profiles so far",
    "pickle": "a pickle (PyTorch memory snapshots are); it is not opened, because a pickle can run code",
}
COMPRESSED = ("gzip", "zstd", "xz", "bzip2")
"""Compressions that are not undone here (gzip: within gzip)."""


def load(paths: Sequence[str], on_progress: Progress | None = None) -> Timeline:
    """Read every path (`-` is standard input) and join them, each file a rank.

    Raises `GpuwhyError` for the first input that cannot be used.
    """
    if not paths:
        raise GpuwhyError("no profile given", hint="gpuwhy explain profile.json.gz")
    if list(paths).count("-") > 1:
        raise GpuwhyError("standard input can be read only once")
    return merge([_read(path, on_progress) for path in paths])


def _read(path: str, on_progress: Progress | None) -> Timeline:
    opened = Opened(path)
    try:
        if opened.kind == "zip":
            return compact.read(opened)
        if opened.kind != "json":
            raise _unusable(opened)

        def report(_: int) -> None:
            if on_progress:
                on_progress(opened.name, opened.read_bytes, opened.size)

        try:
            events = scan(opened.chunks(), on_progress=report)
        except NotEvents as error:
            raise _not_events(opened, str(error)) from None
        damage = "; ".join(filter(None, (opened.damage, events.damage))) or None
        return kineto.timeline(events, opened.name, damage)
    except MemoryError:
        raise GpuwhyError(f"{opened.name}: not enough memory to read it") from None
    finally:
        opened.close()


def _unusable(opened: Opened) -> GpuwhyError:
    name, kind = opened.name, opened.kind
    if opened.damage:
        return GpuwhyError(f"{name}: {opened.damage}, and nothing could be read before that")
    if kind in ("empty", "blank"):
        return GpuwhyError(f"{name} is empty", hint=EXPORT_HINT)
    if kind in OTHER_FORMATS:
        return GpuwhyError(f"{name} is {OTHER_FORMATS[kind]}", hint=EXPORT_HINT)
    if kind != "unknown":
        hint = "decompress it first" if kind in COMPRESSED else EXPORT_HINT
        return GpuwhyError(f"{name} is {kind} data, not a PyTorch profile", hint=hint)
    return GpuwhyError(f"{name} is not JSON", hint=EXPORT_HINT)


def _not_events(opened: Opened, reason: str) -> GpuwhyError:
    reason = f"{opened.damage}; {reason}" if opened.damage else reason
    return GpuwhyError(f"{opened.name}: {reason}", hint=EXPORT_HINT)
