"""From a path or standard input to chunks of decompressed bytes, and what format they are, told by content.

Nothing is written and nothing is executed. Decompression runs on a thread of its own, a few chunks ahead.
"""

from __future__ import annotations

import queue
import sys
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from gpuwhy.errors import GpuwhyError

CHUNK = 1 << 20
AHEAD = 4
"""Chunks that the decompressing thread may be ahead."""

MAX_GZIP_RATIO = 2000
"""Larger expansions are an attack, not a profile (profiles reach about 30; zlib's limit is 1032)."""

KINDS = {
    b"\x1f\x8b": "gzip",
    b"SQLite format 3\x00": "sqlite",
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
    b"\x80\x04": "pickle",
    b"\x80\x02": "pickle",
    b"\x80\x05": "pickle",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"PAR1": "Parquet",
}


class Opened:
    """An input: its first bytes, and the rest as chunks.

    `kind` is what the first bytes say (`json`, `sqlite`, `zip`, `xplane`, `unknown`, …); `damage` is set after
    reading if the compressed data ended early or was corrupt.
    """

    def __init__(self, path: str) -> None:
        self.name = "standard input" if path == "-" else path
        self.file: BinaryIO
        self.size: int | None = None
        self.read_bytes = 0
        self.damage: str | None = None
        self.file = sys.stdin.buffer if path == "-" else self._open(path)
        self.raw_head = self._read_some()
        self.compressed = self.raw_head.startswith(b"\x1f\x8b")
        self._chunks = self._gunzip() if self.compressed else self._plain()
        self.head = next(self._chunks, b"")
        self.kind = _kind(self.head)

    def _open(self, path: str) -> BinaryIO:
        where = Path(path)
        try:
            if where.is_dir():
                raise GpuwhyError(
                    f"{path} is a directory", hint=f"name the profiles in it: gpuwhy explain {path}/*.json.gz"
                )
            self.size = where.stat().st_size if where.is_file() else None
            return where.open("rb")
        except OSError as error:
            reason = {FileNotFoundError: "no such file", PermissionError: "not readable (permission denied)"}
            raise GpuwhyError(f"{path}: {reason.get(type(error), error.strerror or str(error))}") from None
        except ValueError:
            raise GpuwhyError(f"{path!r} is not a path") from None

    def _read_some(self) -> bytes:
        try:
            data = self.file.read(CHUNK)
        except OSError as error:
            raise GpuwhyError(f"{self.name}: {error.strerror or error}") from None
        self.read_bytes += len(data)
        return data

    def _plain(self) -> Iterator[bytes]:
        data = self.raw_head
        while data:
            yield data
            data = self._read_some()

    def _gunzip(self) -> Iterator[bytes]:
        from isal import isal_zlib

        # isal's stubs say less than it has: its error class, and that `eof` changes.
        inflate: Any = isal_zlib
        data, out = self.raw_head, 0
        while data:
            member = inflate.decompressobj(wbits=31)
            while data and not member.eof:
                try:
                    piece = member.decompress(data, 4 * CHUNK)
                except (inflate.error, zlib.error) as error:
                    self.damage = f"the gzip data is corrupt ({error})"
                    return
                data = member.unconsumed_tail or (b"" if member.eof else self._read_some())
                out += len(piece)
                if out > MAX_GZIP_RATIO * max(self.read_bytes, CHUNK):
                    raise GpuwhyError(f"{self.name}: expands more than {MAX_GZIP_RATIO} times; not a profile")
                if piece:
                    yield piece
            if not member.eof:
                self.damage = "the gzip data is cut short"
                return
            data = member.unused_data or self._read_some()
            if data and not data.startswith(b"\x1f\x8b"):
                if data.strip(b"\0"):
                    self.damage = "other data follows the gzip data"
                return

    def chunks(self) -> Iterator[bytes]:
        """All of the content, decompressed, the head included; read on a thread, so that parsing overlaps."""
        if not self.compressed:
            yield self.head
            yield from self._chunks
            return
        ready: queue.Queue[bytes | BaseException | None] = queue.Queue(AHEAD)
        stop = threading.Event()

        def work() -> None:
            end: BaseException | None = None
            try:
                for piece in self._chunks:
                    while not stop.is_set():
                        try:
                            ready.put(piece, timeout=0.1)
                            break
                        except queue.Full:
                            continue
                    if stop.is_set():
                        return
            except BaseException as error:
                end = error
            ready.put(end)

        thread = threading.Thread(target=work, name="gpuwhy-gunzip", daemon=True)
        thread.start()
        try:
            yield self.head
            while (piece := ready.get()) is not None:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            stop.set()
            while not ready.empty():
                ready.get_nowait()

    def close(self) -> None:
        """Close the file (standard input stays open)."""
        if self.file is not sys.stdin.buffer:
            self.file.close()


def _kind(head: bytes) -> str:
    """What the first decompressed bytes are."""
    if not head:
        return "empty"
    for magic, kind in KINDS.items():
        if head.startswith(magic):
            return kind
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] in (b"{", b"["):
        return "json"
    if not text:
        return "blank"
    if b"\0" in head[:4096] and head[:1] == b"\x0a" and (b"/device:" in head or b"/host:" in head):
        return "xplane"
    return "unknown"
