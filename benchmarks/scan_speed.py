"""MB of JSON a second of processor time, and peak memory, of the scanner's back ends and msgspec, in turns.

    python benchmarks/scan_speed.py TRACE.json[.gz] [--rounds 3] [--repeat-to 300]

Each measurement runs in a process of its own, so that its peak memory is its own; `--repeat-to` repeats the
events of the trace until the JSON has that many MB.
"""

from __future__ import annotations

import argparse
import gzip
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

METHODS = ("compiled", "pure", "msgspec")


def chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            yield chunk


def with_msgspec(path: Path) -> int:
    """The fields that the scanner keeps, as typed structs; the whole file must be in memory."""
    import msgspec

    from gpuwhy.sources.columns import TABLES, Kind

    of_kind = {Kind.NS: float | None, Kind.INT: int | str | None, Kind.CODE: int | str | None}
    own, args = {"cat": of_kind[Kind.CODE], "ph": of_kind[Kind.CODE]}, {}
    for column in (column for table in TABLES for column in table.columns):
        (args if column.in_args else own).update(dict.fromkeys(column.keys, of_kind[column.kind]))
    names = {f"field_{i}": key for i, key in enumerate(args)}
    of_args = msgspec.defstruct("Args", [(name, args[key], None) for name, key in names.items()], rename=names)
    of_event = [*((key, kind, None) for key, kind in own.items()), ("args", of_args | None, None)]
    event = msgspec.defstruct("Event", of_event)
    trace = msgspec.defstruct("Trace", [("traceEvents", list[event])])  # type: ignore[valid-type]
    return len(msgspec.json.decode(path.read_bytes(), type=trace).traceEvents)


def measure(method: str, path: Path, answer: multiprocessing.SimpleQueue[tuple[float, int, int]]) -> None:
    from gpuwhy.sources.scan import compiled, pure

    start = time.process_time()
    if method == "msgspec":
        count = with_msgspec(path)
    else:
        count = {"compiled": compiled, "pure": pure}[method].scan(chunks(path)).count
    seconds = time.process_time() - start
    answer.put((seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10, count))


def repeated(path: Path, megabytes: int, folder: str) -> Path:
    """The trace as plain JSON with its events repeated."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    start = data.index(b"[", data.index(b'"traceEvents"')) + 1
    end = data.rindex(b"}", 0, data.rindex(b"]")) + 1
    made = Path(folder) / "trace.json"
    with made.open("wb") as file:
        file.write(data[:end])
        while file.tell() < megabytes * 1_000_000:
            file.write(b"," + data[start:end])
        file.write(data[end:])
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeat-to", type=int, default=0, metavar="MB")
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        path = repeated(options.trace, options.repeat_to, folder)
        size = path.stat().st_size
        print(f"{size / 1e6:.0f} MB of JSON")
        for _ in range(options.rounds):
            for method in METHODS:
                answer = context.SimpleQueue()
                process = context.Process(target=measure, args=(method, path, answer))
                process.start()
                process.join()
                if process.exitcode:
                    print(f"{method:9} failed")
                    continue
                seconds, peak, count = answer.get()
                rate = size / 1e6 / seconds
                print(f"{method:9} {rate:6.0f} MB/s  {peak / 1e6:6.0f} MB peak  {count:,} events")


if __name__ == "__main__":
    main()
