"""Counters of a program's GPUs and processes, sampled from outside into a file of JSON lines, and read again."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from gpuwhy.run.gpus import Gpus, GpuSample
from gpuwhy.run.processes import ProcessSample, Tree, cores, host_pids
from gpuwhy.run.values import Amount, Whole

LONGEST_LINE = 1 << 22
"""Bytes. A line has about 500 for a GPU, 130 for a process and 80 for a thread."""
LARGEST_FILE = 1 << 28
"""Bytes. One process with a GPU and 8 workers writes about 20 MB an hour; dozens of them with threads, 300 MB."""


class Sample(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that was seen at one time."""

    t: Whole
    """ns of `time.monotonic_ns`."""
    gpus: list[GpuSample] = []
    processes: list[ProcessSample] = []
    cores: Amount | None = None
    """CPU cores that the program may use."""
    host_pids: bool | None = None
    """Whether `processes` and the GPUs' processes are numbered alike (not in a container); null: not known."""


class Watch:
    """Samples a program into a file. `problem` is what went wrong with the file, the first time that something did."""

    def __init__(self, path: str | os.PathLike[str], root_pid: int, gpus: Gpus | None) -> None:
        self.path, self.root, self.gpus = Path(path), root_pid, gpus
        self.tree = Tree(root_pid)
        self.host_pids = host_pids()
        self.problem: str | None = None
        self.file: BinaryIO | None = None
        self.cut = False
        """Whether the file may end within a line."""
        try:
            self.file = open(self.path, "ab", buffering=0)  # noqa: SIM115 (closed by close)
            self.cut = self.file.tell() > 0
        except OSError as error:
            self._failed(error)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def sample(self, detailed: Collection[int] = ()) -> None:
        """Append what is seen now, with all threads of the processes in `detailed`."""
        if self.file is None:
            return
        sample = Sample(
            t=time.monotonic_ns(),
            gpus=self.gpus.sample() if self.gpus is not None else [],
            processes=self.tree.sample(detailed),
            cores=cores(self.root),
            host_pids=self.host_pids,
        )
        self._write(self.file, msgspec.json.encode(sample) + b"\n")

    def close(self) -> None:
        """Close the file; the GPUs are their owner's."""
        if self.file is not None:
            self.file.close()
            self.file = None

    def _write(self, file: BinaryIO, line: bytes) -> None:
        try:
            if file.tell() + len(line) > LARGEST_FILE:
                self.problem = self.problem or f"{self.path} has {LARGEST_FILE >> 20} MiB: no more is recorded"
                self.close()
                return
            # What was cut off must not swallow this line as well.
            line = b"\n" + line if self.cut else line
            self.cut = True
            if file.write(line) < len(line):
                raise OSError("no room for all of a line")
            self.cut = False
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        self.problem = self.problem or f"counters cannot be written to {self.path}: {error.strerror or error}"


def read(path: str | os.PathLike[str]) -> tuple[list[Sample], int]:
    """The samples of a file in ascending order of time, and how many lines were no samples. No file: no samples."""
    decoder = msgspec.json.Decoder(Sample)
    samples: list[Sample] = []
    skipped = 0
    for line in _lines(Path(path)):
        try:
            samples.append(decoder.decode(line))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            skipped += 1
    return sorted(samples, key=lambda sample: sample.t), skipped


def _lines(path: Path) -> Iterator[bytes]:
    """Lines that are not empty; of one that is too long only the beginning, which is no sample."""
    try:
        with open(path, "rb") as file:
            while line := file.readline(LONGEST_LINE):
                rest = line
                while not rest.endswith(b"\n") and (rest := file.readline(LONGEST_LINE)):
                    pass
                if line.strip():
                    yield line
    except OSError:
        return
