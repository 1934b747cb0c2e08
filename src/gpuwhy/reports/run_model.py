"""The part of a report that only a run of the program can tell, as plain values. Unknown is null, never 0."""

from __future__ import annotations

import msgspec

from gpuwhy.run.counters import GpuSummary


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """How a quantity spreads over steps (or samples): mean, median, 10th and 90th percentile."""

    mean: float
    median: float
    p10: float
    p90: float


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """What the program really did in its steady steps: without start-up, and without those that gpuwhy profiled."""

    steps_by: str
    """What told the steps: `optimizer`, `loader`, `forward`, `generate`, `graph replay` or `gpuwhy.step`."""
    steps: int
    """Timed ones, from one mark to the next."""
    steady_steps: int
    startup_steps: int
    profiled_steps: int
    clock: str
    """`device` (CUDA events) or `host`."""
    step_ns: Figures
    steps_per_s: float
    by_time: list[float]
    """Steps a second in 20 equal stretches of time, all steps counted; empty where there were too few."""
    samples_per_step: float | None
    samples_per_s: float | None
    """Of the whole job: of all ranks together."""
    tokens_per_s: float | None
    samples_by: str | None
    """How samples were inferred."""
    loop_cores: float | None
    """CPU time of the loop's thread over time: 1 is a core kept busy."""
    blocks_ns: list[float] = []
    """Mean step in ns of `block_steps` steady steps each, in their order: what noise is told by (docs/compare.md)."""
    block_steps: int = 1
    input_wait: float | None
    """Part of the steady steps in which the loop waited for its data loader; null where it has none."""


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """One account of the whole run. Accounts sum to the run's wall time."""

    account: str
    ns: int
    share: float
    count: int | None = None


class ProcessInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A process that was watched."""

    pid: int
    rank: int | None
    steps: int
    torch: str | None
    profiles: list[str]
    """Files, within the folder of the run."""
    notes: list[str]
    """What the probe could not do, and why."""


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """torch's allocator, over the whole run of the first rank."""

    allocated_peak: int | None
    reserved_peak: int | None
    """Bytes."""
    device_allocs: int | None
    """Calls of cudaMalloc."""
    device_allocs_steady: int | None
    """Of these, after the first steps."""
    retries: int | None
    """Times that the cache was emptied because memory had run out."""


class Compilation(msgspec.Struct, frozen=True, kw_only=True):
    """Compilations of one function."""

    function: str
    count: int
    ns: int
    reason: str | None
    """Why it was compiled again, the last time."""


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The run of a program."""

    folder: str
    command: list[str]
    wall_ns: int
    exit_status: int | None
    """As a shell sees it; null: not known."""
    signal: int | None
    ended: str
    """`ended`, `failed`, `interrupted`, `killed`, `running` or `unknown`."""
    processes: list[ProcessInfo]
    throughput: Throughput | None
    """Of the first rank; null where no steps were seen."""
    ledger: list[Phase]
    gpus: list[GpuSummary]
    """What the counters said of the GPUs that the program used, in its steady steps."""
    memory: Memory | None
    """What torch's allocator counted; null where it was not asked."""
    compilations: list[Compilation]
    problems: list[str]
    """What gpuwhy itself could not do."""
