"""The compiled back end: feeds scan.c through ctypes, which lets other threads run meanwhile."""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from gpuwhy.sources.columns import TABLES, Kind, Table
from gpuwhy.sources.scan.events import (
    HEADER_LIMIT,
    LIMIT,
    MAX_SKIPPED,
    PROGRESS_STEP,
    Columns,
    Events,
    Reason,
    State,
    Where,
    conclude,
)

_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
LIBRARY = Path(__file__).with_name(f"_scan{_SUFFIX}")

_PIECE = 256 << 10  # bytes handed over at once: they stay in the processor's cache while they are read
_SMALL = 64 << 10  # smaller pieces are joined first: a call costs about a microsecond
_FIRST_BLOCK = 4096  # rows of the first column block; each next one holds twice as many,
_BLOCK = 1 << 19  # up to this

_MOST_KEYS = 128  # of the event, and of its args: the library's lookup tables have a fixed size
_LONGEST_NAME = 512  # bytes of a key, cat or ph: MAX_NAME in names.h

# enum status in scanner.h
_NEED_INPUT, _HEADER, _BLOCK_FULL, _FINISHED, _DAMAGED, _NO_MEMORY = range(6)


class _Slice(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("size", ctypes.c_size_t)]


# The next five are structs of the same names in scanner.h and names.h.
class _Report(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("count", "malformed", "position", "size")),
        *((name, ctypes.c_int32) for name in ("reason", "where", "table", "is_list", "found", "inside", "byte_there")),
        ("key", _Slice),
        ("value", _Slice),
        ("n_texts", ctypes.c_uint64),
        ("n_skipped", ctypes.c_uint64),
        *((name, ctypes.c_void_p) for name in ("texts", "skipped", "text_ends", "skipped_ends")),
        ("skipped_counts", ctypes.c_uint64 * (MAX_SKIPPED + 1)),
    ]


class _Key(ctypes.Structure):
    _fields_ = [
        ("text", ctypes.c_char_p),
        *((name, ctypes.c_uint32) for name in ("size", "slot", "in_args")),
    ]


class _Column(ctypes.Structure):
    _fields_ = [
        ("out", ctypes.c_void_p),
        ("slots", ctypes.POINTER(ctypes.c_uint32)),
        *((name, ctypes.c_uint32) for name in ("n_slots", "kind", "in_args", "last")),
    ]


class _Table(ctypes.Structure):
    _fields_ = [
        ("columns", ctypes.POINTER(_Column)),
        *((name, ctypes.c_uint64) for name in ("n_columns", "rows", "room")),
    ]


class _Rule(ctypes.Structure):
    _fields_ = [
        ("cat", ctypes.c_char_p),
        ("ph", ctypes.c_char_p),
        *((name, ctypes.c_uint32) for name in ("cat_size", "ph_size", "table")),
    ]


@cache
def _library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(os.fspath(LIBRARY))
    except OSError:
        return None
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    for name, result, arguments in (
        ("new", pointer, (ctypes.c_uint64, ctypes.c_uint64, pointer, size, pointer, pointer, size)),
        ("free", None, (pointer,)),
        ("step", ctypes.c_int32, (pointer, pointer, size, ctypes.c_int32)),
        ("report", ctypes.POINTER(_Report), (pointer,)),
    ):
        function = getattr(library, f"gpuwhy_scan_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def available() -> bool:
    """Whether the library is built and loads."""
    return _library() is not None


def scan(
    chunks: Iterable[bytes],
    tables: Sequence[Table] = TABLES,
    *,
    on_progress: Callable[[int], None] | None = None,
    limit: int = LIMIT,
) -> Events:
    """See `gpuwhy.sources.scan.scan`."""
    library = _library()
    if library is None:
        raise ImportError(f"{LIBRARY} is not built")
    scanner = _Scanner(library, tables, limit)
    try:
        scanner.read(chunks, on_progress)
        return scanner.result()
    finally:
        scanner.close()


class _Scanner:
    """One scan: owns the C scanner and the column blocks that it fills."""

    def __init__(self, library: ctypes.CDLL, tables: Sequence[Table], limit: int) -> None:
        self._library = library
        self._tables = tables
        self._state = State()
        self._blocks: list[list[Columns]] = [[] for _ in tables]
        slots: dict[tuple[bool, str], int] = {(False, "cat"): 0, (False, "ph"): 1, (False, "args"): 2}
        for table in tables:
            for column in table.columns:
                for key in column.keys:
                    slots.setdefault((column.in_args, key), len(slots))
        _check_limits(tables, slots)
        self._c_tables = (_Table * len(tables))(*(_c_table(table, slots) for table in tables))
        self._keys = (_Key * len(slots))(
            *(_Key(_padded(key), len(key.encode()), slot, in_args) for (in_args, key), slot in slots.items())
        )
        rules = [
            _Rule(_padded(cat), _padded(phase), len(cat.encode()), len(phase.encode()), index)
            for index, table in enumerate(tables)
            for cat in table.cats
            for phase in table.phases
        ]
        self._rules = (_Rule * len(rules))(*rules)
        for index in range(len(tables)):
            self._fresh_block(index)
        seed = int.from_bytes(os.urandom(8), "little")
        self._scanner = library.gpuwhy_scan_new(
            seed, limit, self._keys, len(slots), self._c_tables, self._rules, len(rules)
        )
        if not self._scanner:
            raise MemoryError

    def _fresh_block(self, index: int) -> None:
        columns, c_table, blocks = self._tables[index].columns, self._c_tables[index], self._blocks[index]
        rows = min(_FIRST_BLOCK << len(blocks), _BLOCK)
        block: Columns = {
            column.name: np.empty(rows, np.int32 if column.kind == Kind.CODE else np.int64) for column in columns
        }
        blocks.append(block)
        for place, values in enumerate(block.values()):
            c_table.columns[place].out = values.ctypes.data
        c_table.rows, c_table.room = 0, rows

    def read(self, chunks: Iterable[bytes], on_progress: Callable[[int], None] | None) -> None:
        """Feed everything, or everything up to the damage."""
        size = told = 0
        for chunk in _joined(chunks):
            base = ctypes.cast(ctypes.c_char_p(chunk), ctypes.c_void_p).value or 0
            for start in range(0, len(chunk), _PIECE):
                piece = min(_PIECE, len(chunk) - start)
                if not self._step(base + start, piece, False):
                    return
                size += piece
                if on_progress is not None and size - told >= PROGRESS_STEP:
                    told = size
                    on_progress(size)
        self._step(None, 0, True)

    def _step(self, address: int | None, size: int, is_last: bool) -> bool:
        """Whether more input is wanted."""
        while True:
            status = self._library.gpuwhy_scan_step(self._scanner, address, size, is_last)
            if status == _NO_MEMORY:
                raise MemoryError
            if status not in (_HEADER, _BLOCK_FULL):
                return bool(status == _NEED_INPUT)
            report = self._library.gpuwhy_scan_report(self._scanner).contents
            if status == _HEADER:
                key = ctypes.string_at(report.key.at + 1, report.key.size - 2)
                kept = report.value.size <= HEADER_LIMIT
                value = ctypes.string_at(report.value.at, report.value.size) if kept else None
                self._state.add_header(key, value)
            else:
                self._fresh_block(report.table)
            address, size = None, 0

    def result(self) -> Events:
        """Everything that was read; to be asked for once."""
        report = self._library.gpuwhy_scan_report(self._scanner).contents
        state = self._state
        state.where = Where(report.where)
        state.reason = Reason(report.reason)
        state.inside, state.found, state.is_list = map(bool, (report.inside, report.found, report.is_list))
        state.count, state.malformed, state.size = report.count, report.malformed, report.size
        state.position, state.byte = report.position, report.byte_there
        texts = list(_texts(report.texts, report.text_ends, report.n_texts))
        cats = list(_texts(report.skipped, report.skipped_ends, report.n_skipped))
        counts = list(report.skipped_counts)
        skipped = [*zip(cats, counts, strict=False)]
        if counts[MAX_SKIPPED]:
            skipped.append((b"", counts[MAX_SKIPPED]))
        rows = [int(c_table.rows) for c_table in self._c_tables]
        self.close()
        columns = {
            table.name: _concatenate(blocks, last)
            for table, blocks, last in zip(self._tables, self._blocks, rows, strict=True)
        }
        return conclude(state, columns, texts, skipped)

    def close(self) -> None:
        """Free the C side; harmless to repeat."""
        scanner, self._scanner = self._scanner, None
        self._library.gpuwhy_scan_free(scanner)


def _padded(text: str) -> bytes:
    return text.encode() + bytes(8)


def _check_limits(tables: Sequence[Table], slots: dict[tuple[bool, str], int]) -> None:
    """ValueError for tables that the library has no room for."""
    names = [key for _, key in slots]
    names += [name for table in tables for name in (*table.cats, *table.phases)]
    for name in names:
        if len(name.encode()) > _LONGEST_NAME:
            raise ValueError(f"longer than {_LONGEST_NAME} bytes: {name[:40]!r}…")
    in_args = sum(of_args for of_args, _ in slots)
    if max(in_args, len(slots) - in_args) > _MOST_KEYS:
        raise ValueError(f"more than {_MOST_KEYS} keys in events (cat, ph and args are three) or in their args")


def _c_table(table: Table, slots: dict[tuple[bool, str], int]) -> _Table:
    columns = (_Column * len(table.columns))()
    for c_column, column in zip(columns, table.columns, strict=True):
        of_column = [slots[column.in_args, key] for key in column.keys]
        c_column.slots = (ctypes.c_uint32 * len(of_column))(*of_column)
        c_column.n_slots, c_column.kind, c_column.in_args = len(of_column), column.kind, column.in_args
    return _Table(columns, len(columns))


def _joined(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, with small pieces joined."""
    small: list[bytes] = []
    size = 0
    for chunk in chunks:
        if not small and len(chunk) >= _SMALL:
            yield bytes(chunk)
            continue
        small.append(chunk)
        size += len(chunk)
        if size >= _SMALL:
            yield b"".join(small)
            small, size = [], 0
    if small:
        yield b"".join(small)


def _texts(at: int | None, ends: int, count: int) -> Iterator[bytes]:
    if not count or at is None:
        return
    borders = list((ctypes.c_uint64 * (count + 1)).from_address(ends))
    for start, end in itertools.pairwise(borders):
        yield ctypes.string_at(at + start, end - start)


def _concatenate(blocks: list[Columns], rows_of_last: int) -> Columns:
    """One array a column, freeing the blocks column by column."""
    joined: Columns = {}
    for name in list(blocks[0]):
        parts = [block.pop(name) for block in blocks]
        parts[-1] = parts[-1][:rows_of_last]
        joined[name] = np.concatenate(parts)
    return joined
