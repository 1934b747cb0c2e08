"""From a path or standard input to chunks of decompressed bytes, and what format they are, told by content.

Nothing is written and nothing is executed. Decompression runs on a thread of its own, a few chunks ahead.
"""

from __future__ import annotations

import os
import queue
import stat
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from typing import Any

from gpuwhy.errors import GpuwhyError

STDIN = "standard input"
CHUNK = 1 << 20
GZIP_PIECE = 1 << 16
"""Compressed bytes that are decompressed at once: what follows a member is copied, and members may be tiny."""
AHEAD = 4
"""Chunks that the decompressing thread may be ahead."""
TEACH = 31 << 20
"""A block of this size, freed untouched, teaches glibc to keep freed chunks instead of giving each back to the kernel:
an eighth of the page faults, a fifth less processor time for a large profile. Elsewhere it does nothing."""
HEAD = 1 << 12
"""Bytes that tell the format."""

MAX_GZIP_RATIO = 200
"""Larger expansions are an attack, not a profile (profiles reach about 35; zlib's limit is 1032)."""

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
        self.name = STDIN if path == "-" else as_text(path)
        self.size: int | None = None
        self.read_bytes = 0
        self.damage: str | None = None
        self.is_stdin = path == "-"
        self.file = self._stdin() if self.is_stdin else self._open(path)
        try:
            self.raw_head = _at_least(HEAD, iter(self._read_some, b""))
            self.compressed = self.raw_head.startswith(b"\x1f\x8b")
            self._chunks = self._gunzip() if self.compressed else self._plain()
            self.head = _at_least(HEAD, self._chunks)
        except BaseException:
            self.close()
            raise
        self.kind = _kind(self.head)

    # Files are read unbuffered: Python's buffered readers hold a lock while they wait for a pipe, and a thread that
    # waits there must not keep others from closing the file or leaving the program.

    def _stdin(self) -> Any:
        if sys.stdin is None:
            raise GpuwhyError("standard input is closed")
        return getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)

    def _open(self, path: str) -> Any:
        try:
            where = os.stat(path)
            if stat.S_ISDIR(where.st_mode):
                raise GpuwhyError(
                    f"{self.name} is a directory", hint=f"name the profiles in it: gpuwhy explain {self.name}/*.json.gz"
                )
            self.size = where.st_size if stat.S_ISREG(where.st_mode) else None
            return open(path, "rb", buffering=0)
        except OSError as error:
            reason = {FileNotFoundError: "no such file", PermissionError: "not readable (permission denied)"}
            raise GpuwhyError(
                f"{self.name or repr(path)}: {reason.get(type(error), error.strerror or str(error))}"
            ) from None
        except ValueError:
            raise GpuwhyError(f"{path!r} is not a path") from None

    def _read_some(self, size: int = GZIP_PIECE) -> bytes:
        """The next bytes, at most `size`; none at the end."""
        try:
            while (data := self.file.read(size)) is None:  # standard input may be set not to block
                time.sleep(0.01)
        except OSError as error:
            raise GpuwhyError(f"{self.name}: {error.strerror or error}") from None
        self.read_bytes += len(data)
        return bytes(data)

    def _plain(self) -> Iterator[bytes]:
        data = self.raw_head
        while data:
            yield data
            data = self._read_some(CHUNK)

    def _gunzip(self) -> Iterator[bytes]:
        from isal import isal_zlib

        # isal's stubs say less than it has: its error class, and that `eof` changes.
        inflate: Any = isal_zlib
        data, out = self.raw_head, 0
        bytes(TEACH)
        while data:
            member = inflate.decompressobj(wbits=31)
            while data and not member.eof:
                try:
                    piece = member.decompress(data, CHUNK)
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
            data = member.unused_data
            while len(data) < 2 and (more := self._read_some()):
                data += more
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
        if not self.is_stdin:
            self.file.close()


def as_text(path: str) -> str:
    """A path for reports: it may hold bytes that are no text, or stand in the encoding of another locale."""
    try:
        return os.fsencode(path).decode("utf-8", "replace")
    except ValueError:
        return ascii(path)


def _at_least(size: int, pieces: Iterator[bytes]) -> bytes:
    """The first pieces, `size` bytes or more unless all end before."""
    head = b""
    while len(head) < size and (piece := next(pieces, b"")):
        head += piece
    return head


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
        return "json" if len(head) >= HEAD else "blank"
    if b"\0" in head[:4096] and head[:1] == b"\x0a" and (b"/device:" in head or b"/host:" in head):
        return "xplane"
    return "unknown"
