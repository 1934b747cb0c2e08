"""The folder of a run → the report."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpuwhy import api
from gpuwhy.errors import GpuwhyError
from gpuwhy.explained import Explained, Watched
from gpuwhy.reports.run_model import Compilation, Memory, ProcessInfo, RunInfo
from gpuwhy.run import folder as folders
from gpuwhy.run import journals, rules, watch
from gpuwhy.run.counters import GpuSummary, Summary, summarize
from gpuwhy.run.joined import joined, without_profile
from gpuwhy.run.journals import Journal
from gpuwhy.run.phases import phases
from gpuwhy.run.seen import Seen
from gpuwhy.run.steps import Steps, steps_of
from gpuwhy.run.throughput import samples_of, throughput, usual_step
from gpuwhy.sources.load import Progress
from gpuwhy.steps import Selection

LONGEST_PROBLEMS = 100_000
MOST_COMPILED = 10
"""Functions."""
Process = tuple[Journal, Steps]


@dataclass(frozen=True)
class Asked:
    """What is asked of a run's profiles: as the arguments of `gpuwhy.api.report`."""

    chosen: Selection = field(default_factory=Selection)
    device: int | None = None
    top: int = 3
    samples: int | None = None
    step_time: float | None = None
    what_if: str | None = None


def explain_run(path: Path, asked: Asked | None = None, on_progress: Progress | None = None) -> Explained:
    """Say where a run's time went.

    Raises GpuwhyError where `path` is no folder of a run.
    """
    run = folders.read(path)
    read = journals.read(path)
    watched = _workers([(journal, steps) for journal in read if (steps := steps_of(journal)) is not None])
    ended = _end(run, read)
    first = watched[0] if watched else None
    samples, _ = watch.read(path / "counters.jsonl")
    seen = [Seen(journal, steps, _summary(journal, steps, samples)) for journal, steps in watched]
    about = first[0] if first else read[0] if read else None
    info = RunInfo(
        folder=str(path),
        command=run.command,
        wall_ns=ended - run.begun_ns,
        exit_status=run.exit_status,
        signal=run.signal,
        ended=_how(run, path),
        processes=[_process(journal, path) for journal in ([one for one, _ in watched] or read[:1])],
        throughput=throughput([steps for _, steps in watched], seen[0].loop) if watched else None,
        ledger=phases(about, first[1] if first else None, run.begun_ns, ended),
        gpus=_gpus(seen),
        memory=_memory(first[0]) if first else None,
        compilations=_compilations(about) if about is not None else [],
        problems=_problems(path, run),
    )
    found = [finding for one in seen for finding in rules.findings(one)]
    profile, why = _profiles(path, watched, asked or Asked(), on_progress)
    if profile is None and asked is not None and replace(asked, top=3) != Asked():
        raise GpuwhyError(
            f"{path}: {why or 'this run has no profile'}, and what was asked is of a profile",
            hint=f"gpuwhy explain {path}, without further options",
        )
    about_run = Watched(run.begun_ns, ended, seen, samples)
    if profile is None:
        return Explained(without_profile(info, found, why), watched=about_run)
    return Explained(joined(profile.report, info, found), profile.parts, about_run)


def _workers(found: Sequence[Process]) -> list[Process]:
    """The processes that do the work: of those that made steps, all ranks, or else the one with most steps."""
    ranked = [one for one in found if one[0].rank is not None]
    if ranked:
        best: dict[int, Process] = {}
        for journal, steps in ranked:
            rank = journal.rank or 0
            if rank not in best or len(steps) > len(best[rank][1]):
                best[rank] = journal, steps
        return [best[rank] for rank in sorted(best)]
    return sorted(found, key=lambda one: -len(one[1]))[:1]


def _end(run: folders.RunFile, read: Sequence[Journal]) -> int:
    """When the run ended: as gpuwhy saw it, else the last that a process wrote."""
    if run.ended_ns is not None:
        return run.ended_ns
    last = [int(journal.records["end"].max()) for journal in read if len(journal.records)]
    last += [int(journal.steps[-1]) for journal in read if len(journal.steps)]
    last += [int(note["t"]) for journal in read for note in journal.notes if isinstance(note.get("t"), int)]
    return max([*last, run.begun_ns + 1])


def _how(run: folders.RunFile, path: Path) -> str:
    if run.exit_status is None:
        return "running" if (path / "socket").exists() else "unknown"
    if run.signal is not None:
        return "interrupted" if run.signal == signal.SIGINT else "killed"
    return "failed" if run.exit_status else "ended"


def _process(journal: Journal, path: Path) -> ProcessInfo:
    torch = journal.noted("torch")
    notes = [f"the probe switched itself off: {note.get('error')}" for note in journal.noted("failed")]
    notes += [f"no profile was recorded: {note.get('why')}" for note in journal.noted("aside")]
    notes += [str(note.get("what")) for note in journal.noted("missing")]
    return ProcessInfo(
        pid=journal.pid,
        rank=journal.rank,
        steps=_marks(journal),
        torch=str(torch[0].get("version")) if torch else None,
        profiles=[str(note.get("file")) for note in journal.noted("profile") if _there(path, note) is not None],
        notes=notes + ([journal.damage] if journal.damage else []),
    )


def _marks(journal: Journal) -> int:
    """Steps that the anchor told which tells them at the end."""
    first = [note["step"] for note in journal.noted("anchor") if isinstance(note.get("step"), int)]
    return max(len(journal.steps) - first[-1], 0) if first else len(journal.steps)


def _problems(path: Path, run: folders.RunFile) -> list[str]:
    """What went wrong with the counters, and with probes that could not be loaded."""
    found = [run.problem] if run.problem else []
    with suppress(OSError), open(path / "problems.txt", encoding="utf-8", errors="replace") as file:
        found += sorted({line.strip()[:300] for line in file.readlines(LONGEST_PROBLEMS) if line.strip()})
    return found


def _summary(journal: Journal, steps: Steps, samples: Sequence[watch.Sample]) -> Summary | None:
    """The counters of the steady steps, and of the GPUs that the process used."""
    rows = np.flatnonzero(steps.steady)
    if not len(rows):
        return None
    uuids = [note["uuid"] for note in journal.noted("device") if isinstance(note.get("uuid"), str)]
    return summarize(samples, int(steps.edge[rows[0]]), int(steps.edge[rows[-1] + 1]), uuids)


def _gpus(seen: Sequence[Seen]) -> list[GpuSummary]:
    """The GPUs of all processes, each once."""
    found = {gpu.uuid or gpu.index: gpu for one in seen if one.summary is not None for gpu in one.summary.gpus}
    return list(found.values())


def _memory(journal: Journal) -> Memory | None:
    told = journal.noted("memory")
    if not told:
        return None
    last, first = told[-1], told[0]

    def number(note: dict[str, Any], name: str) -> int | None:
        value = note.get(name)
        return value if isinstance(value, int) else None

    after, before = (number(note, "num_device_alloc") for note in (last, first))
    return Memory(
        allocated_peak=number(last, "allocated_bytes_peak"),
        reserved_peak=number(last, "reserved_bytes_peak"),
        device_allocs=after,
        device_allocs_steady=after - before if after is not None and before is not None and len(told) > 1 else None,
        retries=number(last, "num_alloc_retries"),
    )


def _compilations(journal: Journal) -> list[Compilation]:
    """By function, the longest first."""
    found: dict[str, list[dict[str, Any]]] = {}
    for note in journal.noted("compiled"):
        begun, ended = note.get("begun"), note.get("t")
        if isinstance(begun, int) and isinstance(ended, int) and 0 <= begun <= ended:
            where = f"{note.get('co_name') or 'unknown'}"
            if note.get("co_filename"):
                where += f" ({Path(str(note['co_filename'])).name}:{note.get('co_firstlineno')})"
            found.setdefault(where, []).append(note)
    rows = []
    for where, notes in found.items():
        reasons = [str(note["recompile_reason"])[:300] for note in notes if note.get("recompile_reason")]
        ns = sum(note["t"] - note["begun"] for note in notes)
        rows.append(Compilation(function=where, count=len(notes), ns=ns, reason=reasons[-1] if reasons else None))
    return sorted(rows, key=lambda row: -row.ns)[:MOST_COMPILED]


def _there(path: Path, note: dict[str, Any]) -> Path | None:
    """The file of a profile, within the folder of the run."""
    name = note.get("file")
    if not isinstance(name, str) or Path(name).is_absolute() or ".." in Path(name).parts:
        return None
    found = path / name
    if not found.is_file():
        found = found.with_name(f"{found.name}.gz")
    return found if found.is_file() else None


def _profiles(
    path: Path, watched: Sequence[Process], asked: Asked, on_progress: Progress | None
) -> tuple[Explained | None, str | None]:
    """What the newest profiles tell, one a rank, calibrated by the steps around them; or why there are none."""
    found = []
    for journal, steps in watched:
        notes = [(place, note) for note in journal.noted("profile") if (place := _there(path, note)) is not None]
        if notes:
            found.append((*notes[-1], journal, steps))
    if not found:
        return None, None
    _, note, journal, steps = found[0]
    calibrated = usual_step(journal, steps, note)
    try:
        timeline = api.load(*(str(place) for place, *_ in found), on_progress=on_progress)
        profile = api.explained(
            timeline,
            asked.chosen,
            asked.device,
            asked.top,
            asked.samples or samples_of(steps),
            asked.step_time or calibrated,
            asked.what_if,
        )
        return profile, None
    except GpuwhyError as error:
        return None, error.message
