"""Builds small Kineto profiles (as PyTorch 2.6 and newer write them) for tests.

    p = Profile()
    p.operator("aten::mm", 0, 100)
    p.launch(10, 20, 50, 90)                    # cudaLaunchKernel [10, 20) -> a kernel on the device [50, 90)
    p.write(tmp_path / "profile.json.gz")

What an operator was called with is a list with an item an argument: `(type, dims)` or `(type, dims, strides)` is a
tensor (dense without strides) or a list of tensors, `(type, "text")` another value, None an absent one.

Times are integer nanoseconds after `base`; an event says [start, end). In the document they are microseconds
with exactly three decimals, as text, so that nothing passes through a floating-point number.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

MAIN = 100
"""The thread on which calls are, unless told otherwise; its process has the same number."""


class Profile:
    def __init__(
        self,
        base: int = 1_760_000_000_000_000_000,
        process: int = MAIN,
        *,
        gpu: str | None = "NVIDIA H200",
        sm_count: int | None = 132,
        rank: int | None = None,
    ) -> None:
        self.base = base
        self.process = process
        self.gpu = {"name": gpu, "numSms": sm_count}
        self.rank = rank
        self._events: list[tuple[str, dict[str, Any]]] = []  # the times as JSON text, and all the rest
        self._correlation = 0

    # What the host does

    def operator(
        self,
        name: str,
        start: int,
        end: int,
        thread: int = MAIN,
        process: int | None = None,
        *,
        inputs: Sequence[Any] | None = None,
    ) -> None:
        """`inputs` are its arguments, as at the top; None: recorded without shapes."""
        arguments = {} if inputs is None else recorded(inputs)
        self._call("cpu_op", name, start, end, thread, process, **arguments)

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
        self,
        name: str,
        start: int,
        end: int,
        correlation: int | None,
        stream: int = 7,
        device: int = 0,
        *,
        blocks: int = 1,
        threads: int = 32,
    ) -> None:
        grid, block = [blocks, 1, 1], [threads, 1, 1]
        self._work("kernel", name, start, end, correlation, stream, device, grid=grid, block=block)

    def copy(
        self,
        kind: str,
        start: int,
        end: int,
        correlation: int | None,
        stream: int = 7,
        device: int = 0,
        *,
        size: int | None = 1024,
    ) -> None:
        """`kind` is the text of the profiler, such as `HtoD (Pinned -> Device)`; `size` in bytes, None: not told."""
        told = {} if size is None else {"bytes": size}
        self._work("gpu_memcpy", f"Memcpy {kind}", start, end, correlation, stream, device, **told)

    def memset(
        self,
        start: int,
        end: int,
        correlation: int | None,
        stream: int = 7,
        device: int = 0,
        *,
        size: int = 1024,
    ) -> None:
        self._work("gpu_memset", "Memset (Device)", start, end, correlation, stream, device, bytes=size)

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
        blocks: int = 1,
        threads: int = 32,
    ) -> int:
        """A launch call and its kernel."""
        correlation = self.runtime(call, call_start, call_end, thread=thread, process=process)
        self.kernel(name, start, end, correlation, stream, device, blocks=blocks, threads=threads)
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
        told = {key: value for key, value in self.gpu.items() if value is not None}
        properties = [{"id": device, **told} for device in range(4)]
        head: dict[str, Any] = {
            "schemaVersion": 1,
            "deviceProperties": properties,
            "cuda_driver_version": 13000,
            "cuda_runtime_version": 13000,
            "cupti_version": 130001,
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": self.base,
        }
        if self.rank is not None:
            head["distributedInfo"] = {"backend": "nccl", "rank": self.rank, "world_size": self.rank + 1}
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


def recorded(inputs: Sequence[Any]) -> dict[str, list[Any]]:
    """The arguments of a call as PyTorch writes them."""
    rows = [_recorded(item) for item in inputs]
    keys = ("Input type", "Input Dims", "Input Strides", "Concrete Inputs")
    return {key: [row[place] for row in rows] for place, key in enumerate(keys)}


def _recorded(item: Any) -> tuple[str, list[Any], list[Any], str]:
    if item is None:
        return "", [], [], ""
    if isinstance(item[1], str):
        return item[0], [], [], item[1]
    kind, dims = item[:2]
    if len(item) > 2:
        return kind, dims, item[2], ""
    several = bool(dims) and isinstance(dims[0], list)
    return kind, dims, [_dense(one) for one in dims] if several else _dense(dims), ""


def _dense(dims: Sequence[int]) -> list[int]:
    return [math.prod(dims[place + 1 :]) for place in range(len(dims))]


def _times(start: int, end: int) -> str:
    return f'"ts": {_microseconds(start)}, "dur": {_microseconds(end - start)}'


def _microseconds(ns: int) -> str:
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}"


class Script:
    """Calls one after the other, each with its kernels. All are launched before the device begins, and it never waits:
    a window over everything is as long as the kernels of a stream together.
    """

    def __init__(self, profile: Profile | None = None, begin: int = 1_000_000) -> None:
        self.profile = profile or Profile()
        self.begin = begin
        self.host = 0
        self.device: dict[int, int] = {}  # the end of the last operation, by stream

    def call(
        self,
        name: str,
        inputs: Sequence[Any] | None,
        *lengths: int,
        kernel: str = "kernel",
        around: Sequence[str] = (),
        thread: int = MAIN,
        stream: int = 7,
        blocks: int = 1,
    ) -> Script:
        """An operator, within others without shapes (`around`, outermost first), and its kernels of these lengths."""
        start, end = self.host, self.host + 1000
        for depth, outer in enumerate(around):
            self.profile.operator(outer, start + depth, end - depth, thread)
        self.profile.operator(name, start + len(around), end - len(around), thread, inputs=inputs)
        for place, length in enumerate(lengths):
            at = self.device.get(stream, self.begin)
            self.device[stream] = at + length
            went = start + 110 + 20 * place
            self.profile.launch(
                went, went + 10, at, at + length, name=kernel, thread=thread, stream=stream, blocks=blocks
            )
        self.host = end
        return self
