"""Builds small Kineto profiles (as PyTorch 2.6 and newer write them) for tests.

    p = Profile()
    p.operator("aten::mm", 0, 100)
    p.launch(10, 20, 50, 90)                    # cudaLaunchKernel [10, 20) -> a kernel on the device [50, 90)
    p.write(tmp_path / "profile.json.gz")

Times are integer nanoseconds after `base`; an event says [start, end). In the document they are microseconds
with exactly three decimals, as text, so that nothing passes through a floating-point number.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

MAIN = 100
"""The thread on which calls are, unless told otherwise; its process has the same number."""


class Profile:
    def __init__(self, base: int = 1_760_000_000_000_000_000, process: int = MAIN) -> None:
        self.base = base
        self.process = process
        self._events: list[tuple[str, dict[str, Any]]] = []  # the times as JSON text, and all the rest
        self._correlation = 0

    # What the host does

    def operator(self, name: str, start: int, end: int, thread: int = MAIN, process: int | None = None) -> None:
        self._call("cpu_op", name, start, end, thread, process)

    def annotation(self, name: str, start: int, end: int, thread: int = MAIN, process: int | None = None) -> None:
        self._call("user_annotation", name, start, end, thread, process)

    def frame(self, name: str, start: int, end: int, thread: int = MAIN, process: int | None = None) -> None:
        self._call("python_function", name, start, end, thread, process)

    def step(self, number: int, start: int, end: int, thread: int = MAIN, process: int | None = None) -> None:
        self.annotation(f"ProfilerStep#{number}", start, end, thread, process)

    def runtime(
        self,
        name: str,
        start: int,
        end: int,
        correlation: int | None = None,
        thread: int = MAIN,
        process: int | None = None,
    ) -> int:
        """A runtime (`cuda…`) or driver (`cu…`) call; the correlation is fresh unless given, and returned."""
        if correlation is None:
            correlation = self.fresh_correlation()
        category = "cuda_runtime" if name.startswith("cuda") else "cuda_driver"
        self._call(category, name, start, end, thread, process, cbid=1, correlation=correlation)
        return correlation

    # What the device does

    def kernel(
        self, name: str, start: int, end: int, correlation: int | None, stream: int = 7, device: int = 0
    ) -> None:
        self._work("kernel", name, start, end, correlation, stream, device, grid=[1, 1, 1], block=[32, 1, 1])

    def copy(self, kind: str, start: int, end: int, correlation: int | None, stream: int = 7, device: int = 0) -> None:
        """`kind` is the text of the profiler, such as `HtoD (Pinned -> Device)`."""
        self._work("gpu_memcpy", f"Memcpy {kind}", start, end, correlation, stream, device, bytes=1024)

    def memset(self, start: int, end: int, correlation: int | None, stream: int = 7, device: int = 0) -> None:
        self._work("gpu_memset", "Memset (Device)", start, end, correlation, stream, device, bytes=1024)

    # Both

    def launch(
        self,
        call_start: int,
        call_end: int,
        start: int,
        end: int,
        *,
        name: str = "kernel",
        call: str = "cudaLaunchKernel",
        thread: int = MAIN,
        process: int | None = None,
        stream: int = 7,
        device: int = 0,
    ) -> int:
        """A launch call and its kernel."""
        correlation = self.runtime(call, call_start, call_end, thread=thread, process=process)
        self.kernel(name, start, end, correlation, stream, device)
        return correlation

    def fresh_correlation(self) -> int:
        self._correlation += 1
        return self._correlation

    def raw(self, times: str, **event: Any) -> None:
        """An event whose times are written literally: `raw('"ts": 0.0005, "dur": 1', cat=…, name=…, …)`."""
        self._events.append((times, {"ph": "X", **event}))

    # The document

    def events(self) -> list[dict[str, Any]]:
        """The events as a reader sees them; times are exact (`Decimal`)."""
        return self.document()["traceEvents"]

    def document(self) -> dict[str, Any]:
        return json.loads(self.text(), parse_float=Decimal)

    def text(self) -> str:
        return "".join(self._text())

    def write(self, path: Path) -> Path:
        text = self.text().encode()
        path.write_bytes(gzip.compress(text, 1) if path.suffix == ".gz" else text)
        return path

    def _text(self) -> Iterator[str]:
        properties = [{"id": device, "name": "NVIDIA H200", "numSms": 132} for device in range(4)]
        head = {
            "schemaVersion": 1,
            "deviceProperties": properties,
            "cuda_driver_version": 13000,
            "cuda_runtime_version": 13000,
            "cupti_version": 130001,
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": self.base,
        }
        yield json.dumps(head)[:-1] + ', "traceEvents": [\n'
        for number, (times, event) in enumerate(self._events):
            yield ",\n" if number else ""
            yield json.dumps(event)[:-1] + (f", {times}}}" if times else "}")
        yield "\n]}\n"

    def _call(
        self,
        category: str,
        name: str,
        start: int,
        end: int,
        thread: int,
        process: int | None,
        **arguments: Any,
    ) -> None:
        process = self.process if process is None else process
        self.raw(_times(start, end), cat=category, name=name, pid=process, tid=thread, args=arguments)

    def _work(
        self,
        category: str,
        name: str,
        start: int,
        end: int,
        correlation: int | None,
        stream: int,
        device: int,
        **arguments: Any,
    ) -> None:
        arguments.update(device=device, context=1, stream=stream)
        if correlation is not None:
            arguments["correlation"] = correlation
        self.raw(_times(start, end), cat=category, name=name, pid=device, tid=stream, args=arguments)


def _times(start: int, end: int) -> str:
    return f'"ts": {_microseconds(start)}, "dur": {_microseconds(end - start)}'


def _microseconds(ns: int) -> str:
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}"
