"""Bytes per second between host and device, between devices, and of an all-reduce over all of them. Needs torch.

`python -m gpuwhy.roofline.measure_links` is one rank of the all-reduce; `all_reduce` starts one process a device.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from functools import partial
from pathlib import Path

import torch

import gpuwhy
from gpuwhy.roofline.ceilings import AllReduce, Links, Peer
from gpuwhy.roofline.measure_timing import Backend, CudaBackend, Plan, Thing, in_turns, reason, spread

LINK_BYTES = 256 << 20
MOST_PEERS = 8
"""Devices beyond this are linked like the ones before."""
REDUCED_BYTES = 512 << 20
REDUCE_ROUNDS, REDUCE_REPEATS, REDUCE_WARM_UP = 7, 5, 3
PATIENCE_S = 60.0
"""For starting all ranks and the whole all-reduce. Afterwards the processes are ended."""


def links(backend: Backend, plan: Plan, notes: list[str], nbytes: int = LINK_BYTES) -> Links:
    """Bytes/s of copies from and to the host."""
    things: list[Thing] = []
    nbytes = min(nbytes, backend.free_bytes() // 4)
    try:
        device = torch.ones(nbytes, dtype=torch.uint8, device=backend.device)
        # Written, so that the pages exist.
        pageable = torch.ones(nbytes, dtype=torch.uint8)
        things += [
            Thing("h2d_pageable", lambda: device.copy_(pageable), nbytes),
            Thing("d2h_pageable", lambda: pageable.copy_(device), nbytes),
        ]
        if isinstance(backend, CudaBackend):
            pinned = torch.ones(nbytes, dtype=torch.uint8).pin_memory()
            things += [
                Thing("h2d_pinned", lambda: device.copy_(pinned, non_blocking=True), nbytes),
                Thing("d2h_pinned", lambda: pinned.copy_(device, non_blocking=True), nbytes),
            ]
    except Exception as error:  # locked memory may be limited: the other figures stand
        notes.append(f"copies from and to the host: {reason(error)}")
    return Links(**in_turns(backend, things, plan, notes))


def peers(backend: Backend, plan: Plan, notes: list[str], nbytes: int = LINK_BYTES) -> list[Peer] | None:
    """Bytes/s between the measured device and each other one, both ways; None where there is only one."""
    if not isinstance(backend, CudaBackend) or torch.cuda.device_count() < 2:
        return None
    found = []
    for other in range(min(torch.cuda.device_count(), MOST_PEERS)):
        if other == backend.index:
            continue
        for source, target in ((backend.index, other), (other, backend.index)):
            name = f"copies from device {source} to {target}"
            try:
                with torch.cuda.device(source):  # a copy between devices runs on the source's stream
                    one = torch.ones(nbytes, dtype=torch.uint8, device=f"cuda:{source}")
                    two = torch.empty_like(one, device=f"cuda:{target}")
                    direct = bool(torch.cuda.can_device_access_peer(source, target))
                    copy = Thing(name, partial(two.copy_, one, non_blocking=True), nbytes)
                    rates = in_turns(CudaBackend(source), [copy], plan, notes)
            except Exception as error:  # another device may be full: the other figures stand
                notes.append(f"{name}: {reason(error)}")
                continue
            if name in rates:
                found.append(Peer(source=source, target=target, direct=direct, bytes_per_s=rates[name]))
    return found


def all_reduce(
    devices: int,
    notes: list[str],
    *,
    library: str = "nccl",
    nbytes: int = REDUCED_BYTES,
    patience_s: float = PATIENCE_S,
) -> AllReduce | None:
    """Bus bytes/s of an all-reduce over all visible devices, one process each; None, with a note, if it fails."""
    if not torch.distributed.is_available():
        notes.append("all-reduce: this torch has no torch.distributed")
        return None
    with tempfile.TemporaryDirectory(prefix="gpuwhy-") as folder:
        place = Path(folder)
        problem = _run_ranks(devices, library, nbytes, place, patience_s)
        try:
            rates = json.loads((place / "result").read_text())
        except (OSError, ValueError):
            notes.append(f"all-reduce over {devices} devices: {problem or 'no result'}")
            return None
    return AllReduce(devices=devices, bytes=nbytes, bus_bytes_per_s=spread(rates))


def _run_ranks(count: int, library: str, nbytes: int, place: Path, patience_s: float) -> str | None:
    """Start all ranks and wait; what went wrong, in words. No process of theirs is left."""
    ours = str(Path(gpuwhy.__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, [ours, os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "gpuwhy.roofline.measure_links", library, str(nbytes), str(place), str(count)]
    until = time.monotonic() + patience_s
    running: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(count):
            with open(place / f"errors{rank}", "wb") as errors:
                running.append(
                    subprocess.Popen(
                        [*command, str(rank)],
                        env={**os.environ, "PYTHONPATH": path},
                        stdin=subprocess.DEVNULL,
                        stdout=errors,
                        stderr=errors,
                    )
                )
        while any(process.poll() is None for process in running):
            failed = [rank for rank, process in enumerate(running) if process.poll()]
            if failed:  # the others would wait for it
                return _last_words(place / f"errors{failed[0]}")
            if time.monotonic() > until:
                return f"not done after {patience_s:.0f} s"
            time.sleep(0.05)
        return next((_last_words(place / f"errors{rank}") for rank, p in enumerate(running) if p.returncode), None)
    except OSError as error:
        return reason(error)
    finally:
        for process in running:
            process.kill()
            process.wait()


def _last_words(file: Path) -> str:
    lines = file.read_text(errors="replace").strip().splitlines()
    return lines[-1][:160] if lines else "a process ended without a word"


def rank_of_all_reduce(library: str, nbytes: int, place: Path, count: int, rank: int) -> None:
    """One rank: joins the others, reduces, and (rank 0) writes the bus bytes/s of each round to `place`."""
    backend = CudaBackend(rank) if library == "nccl" else Backend()
    if isinstance(backend, CudaBackend):
        torch.cuda.set_device(rank)
    distributed = torch.distributed
    distributed.init_process_group(
        library,
        init_method=(place / "meeting").as_uri(),
        rank=rank,
        world_size=count,
        timeout=timedelta(seconds=PATIENCE_S),
    )
    data = torch.ones(nbytes // 4, device=backend.device)
    for _ in range(REDUCE_WARM_UP):
        distributed.all_reduce(data)
    rates = []
    for _ in range(REDUCE_ROUNDS):
        data.fill_(1.0)  # sums of sums would overflow
        distributed.barrier()
        ns = backend.time_ns(lambda: distributed.all_reduce(data), REDUCE_REPEATS)
        rates.append(2 * (count - 1) / count * nbytes * REDUCE_REPEATS / ns * 1e9)
    if rank == 0:
        partial = place / "result.part"
        partial.write_text(json.dumps(rates))
        partial.replace(place / "result")
    backend.synchronize()
    distributed.destroy_process_group()


if __name__ == "__main__":
    library, nbytes, place, count, rank = sys.argv[1:]
    rank_of_all_reduce(library, int(nbytes), Path(place), int(count), int(rank))
