"""FLOP/s of matrix products, by precision and size. Needs torch.

Data is random and normal: with zeros hardly any bit flips, and a device clocks higher than it ever does in real work.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gpuwhy.roofline.ceilings import Matmul
from gpuwhy.roofline.measure_timing import Backend, Plan, Run, Thing, dice, in_turns, reason

Progress = Callable[[str], None]

SIZES = (1024, 2048, 4096, 8192, 16384)
SUSTAINED = ("bf16", "fp16", "fp32")
SUSTAINED_SIZE = 8192
MEMORY_SHARE = 0.7
"""Share of the free memory that matrices may take."""


@dataclass(frozen=True)
class Precision:
    """A kind of matrix product. `make(device, n)` gives the product of two n × n matrices; bytes are per element."""

    name: str
    bytes: int
    make: Callable[[torch.device, int], Run]


@contextlib.contextmanager
def settings_restored() -> Iterator[None]:
    """Whatever happens inside: torch's precision of float32 products is afterwards what it was."""
    # Since 2.9 torch has a setting for each library beside the old one, which writes through to them.
    newer = [
        library.matmul
        for library in (torch.backends.cuda, torch.backends.mkldnn)
        if hasattr(getattr(library, "matmul", None), "fp32_precision")
    ]
    each = [library.fp32_precision for library in newer]
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:  # the program set the newer ones only: the old one is at its default
        before = "highest"
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
        for library, precision in zip(newer, each, strict=True):
            library.fp32_precision = precision


def precisions(capability: str | None, notes: list[str]) -> list[Precision]:
    """The kinds of product that make sense on a device, those of small elements first."""
    found = [
        Precision("int8", 6, _int8),
        Precision("fp16", 6, _plain(torch.float16)),
        Precision("bf16", 6, _plain(torch.bfloat16)),
        Precision("fp64", 24, _plain(torch.float64)),
    ]
    kind = _fp8_type(capability)
    if kind is not None:
        found.insert(0, Precision("fp8", 4, _fp8(kind)))
    # Both variables overrule what a program asks for: the product would not be what its name says.
    if os.environ.get("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE") == "1":
        notes.append("fp32: TORCH_ALLOW_TF32_CUBLAS_OVERRIDE makes it tf32")
    else:
        found.insert(-1, Precision("fp32", 12, _plain(torch.float32, "highest")))
    if os.environ.get("NVIDIA_TF32_OVERRIDE") == "0":
        notes.append("tf32: NVIDIA_TF32_OVERRIDE forbids it")
    elif _has_tf32(capability):
        found.insert(-1, Precision("tf32", 12, _plain(torch.float32, "high")))
    return found


def measure_matmul(
    backend: Backend,
    kinds: Sequence[Precision],
    sizes: Sequence[int],
    plan: Plan,
    notes: list[str],
    on_progress: Progress,
) -> list[Matmul]:
    """FLOP/s of square products, by precision and size; precisions of one size take turns."""
    found: list[Matmul] = []
    for size in sizes:
        on_progress(f"matrix products of {size}")
        room = backend.free_bytes() * MEMORY_SHARE
        things: dict[Precision, Thing] = {}
        for kind in kinds:
            need = kind.bytes * size**2
            if need > room:
                continue
            try:
                things[kind] = Thing(f"{kind.name} products of {size}", kind.make(backend.device, size), 2.0 * size**3)
            except Exception as error:  # see `in_turns`
                notes.append(f"{kind.name} products of {size}: {reason(error)}")
            else:
                room -= need
        rates = in_turns(backend, list(things.values()), plan, notes)
        done = {kind: rates[thing.name] for kind, thing in things.items() if thing.name in rates}
        found += [Matmul(precision=kind.name, size=size, flops_per_s=rate) for kind, rate in done.items()]
        del things
        backend.release()
        # What failed or did not fit will not do at a larger size; eight times the work must not take too long.
        kinds = [kind for kind in done if 16e9 * size**3 / done[kind].mid <= plan.longest_run_ns]
    return found


def measure_sustained(
    backend: Backend, kinds: Sequence[Precision], best: Sequence[Matmul], plan: Plan, notes: list[str]
) -> Matmul | None:
    """FLOP/s that the most used precision keeps up for a second, under whatever limit the device then meets."""
    known = {(one.precision, one.size) for one in best}
    for name in SUSTAINED:
        sizes = [size for precision, size in known if precision == name]
        kind = next((kind for kind in kinds if kind.name == name), None)
        if kind is None or not sizes:
            continue
        size = max((s for s in sizes if s <= SUSTAINED_SIZE), default=min(sizes))
        try:
            thing = Thing(f"sustained {name} products", kind.make(backend.device, size), 2.0 * size**3)
        except Exception as error:  # see `in_turns`
            notes.append(f"sustained {name} products: {reason(error)}")
            return None
        rates = in_turns(backend, [thing], plan, notes)
        backend.release()
        return Matmul(precision=name, size=size, flops_per_s=rates[thing.name]) if rates else None
    return None


def _plain(dtype: torch.dtype, float32_precision: str | None = None) -> Callable[[torch.device, int], Run]:
    def make(device: torch.device, size: int) -> Run:
        one, other = (torch.randn(size, size, device=device, dtype=dtype, generator=dice(device)) for _ in range(2))
        out = torch.empty_like(one)

        def run() -> None:
            if float32_precision:  # set each time: products of both precisions take turns
                torch.set_float32_matmul_precision(float32_precision)
            torch.mm(one, other, out=out)

        return run

    return make


def _int8(device: torch.device, size: int) -> Run:
    one, other = (
        (torch.randn(size, size, device=device, generator=dice(device)) * 32).round_().clamp_(-127, 127).to(torch.int8)
        for _ in range(2)
    )
    return lambda: torch._int_mm(one, other.t())


def _fp8(dtype: torch.dtype) -> Callable[[torch.device, int], Run]:
    def make(device: torch.device, size: int) -> Run:
        one, other = (torch.randn(size, size, device=device, generator=dice(device)).to(dtype) for _ in range(2))
        scale = torch.ones((), device=device)
        # Fast accumulation (in fewer bits than fp32, on Hopper) is what training libraries use, and the true ceiling.
        return lambda: torch._scaled_mm(
            one, other.t(), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16, use_fast_accum=True
        )

    return make


def _at_least(capability: str | None, major: int, minor: int) -> bool:
    parts = (capability or "").split(".")
    return len(parts) == 2 and (int(parts[0]), int(parts[1])) >= (major, minor)


def _has_tf32(capability: str | None) -> bool:
    if (capability or "").startswith("gfx"):
        return os.environ.get("HIPBLASLT_ALLOW_TF32") == "1"
    return capability is None or _at_least(capability, 8, 0)


def _fp8_type(capability: str | None) -> Any:
    """The 8 bit float with 4 bits of exponent that the device multiplies, or None."""
    if (capability or "").startswith("gfx94"):
        return getattr(torch, "float8_e4m3fnuz", None)
    if _at_least(capability, 8, 9) or (capability or "").startswith(("gfx95", "gfx12")):
        return getattr(torch, "float8_e4m3fn", None)
    return None
