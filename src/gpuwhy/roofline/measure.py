"""Measures what a device can really do, with the user's torch: a device → `Ceilings`. Needs torch; import it lazily.

FLOP/s, bytes/s, ns. What cannot be measured is None, with a note that says why. Afterwards torch is set as it was.
"""

from __future__ import annotations

import datetime
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from gpuwhy.errors import GpuwhyError
from gpuwhy.roofline.ceilings import L2, Ceilings, Details, Dram, Launch, Spread
from gpuwhy.roofline.measure_driver import ClockWatch, Driver
from gpuwhy.roofline.measure_links import all_reduce, links, peers
from gpuwhy.roofline.measure_matmul import (
    SIZES,
    Progress,
    measure_matmul,
    measure_sustained,
    precisions,
    settings_restored,
)
from gpuwhy.roofline.measure_timing import (
    BURST_NS,
    REST_S,
    STANDARD,
    Backend,
    CudaBackend,
    Plan,
    Thing,
    dice,
    in_turns,
    is_out_of_memory,
    reason,
    spread,
)

DRAM_BYTES = 2_000_000_000
"""Many times any second-level cache, and just below what a kernel can index with 32 bits."""
DRAM_MEMORY_SHARE = 0.2
"""Share of the free memory that each of the two buffers may take."""
LEAST_DRAM_COUNT = 1 << 24
L2_PASSES = 100
EAGER_OPS = 1000
"""Fewer than fit into a launch queue (1024), so that the host never waits for the device."""
GRAPH_NODES = 1000
SUSTAINED_ROUNDS = 10
"""Rounds this many times as long: with seven of them, 1.4 s without a rest."""
PROFILED_NODES = 100


def find_device(index: int | None) -> int:
    """The number of the device to measure; an error that says what is missing if there is none."""
    if not torch.cuda.is_available():
        built = torch.version.cuda or torch.version.hip
        raise GpuwhyError(
            f"torch {torch.__version__} finds no GPU to measure",
            hint="run it on the machine with the GPU; `--show` tells what is kept and published"
            if built
            else "this torch is built without CUDA or ROCm: run it with the Python whose torch uses your GPU",
        )
    count = torch.cuda.device_count()
    if index is None:
        return int(torch.cuda.current_device())
    if not 0 <= index < count:
        raise GpuwhyError(f"no device {index}", hint=f"torch sees {count}: 0 to {count - 1}" if count > 1 else "only 0")
    return index


def in_use(device: int) -> str | None:
    """How somebody else uses the device, in words; None: not, or not known. Ask before measuring."""
    return _driver(device).in_use()


def measure(device: int, on_progress: Progress) -> Ceilings:
    """Measure a device in about half a minute."""
    backend, driver = CudaBackend(device), _driver(device)
    properties = torch.cuda.get_device_properties(device)
    with torch.cuda.device(device):
        return measure_on(
            backend,
            driver,
            name=torch.cuda.get_device_name(device),
            sm_count=properties.multi_processor_count,
            capability=_architecture(properties),
            on_progress=on_progress,
        )


def measure_on(
    backend: Backend,
    driver: Driver,
    *,
    name: str,
    sm_count: int | None,
    capability: str | None,
    on_progress: Progress,
    plan: Plan = STANDARD,
    sizes: Sequence[int] = SIZES,
    dram_bytes: int = DRAM_BYTES,
    link_bytes: int | None = None,
) -> Ceilings:
    """Measure through any backend."""
    notes: list[str] = []
    watch = ClockWatch(driver)
    backend.on_busy = watch.look
    with settings_restored(), torch.no_grad():
        on_progress("launches")
        launch = measure_launch(backend, plan, notes)
        kinds = precisions(capability, notes)
        burst = replace(plan, round_ns=min(plan.round_ns, BURST_NS), rest_s=REST_S)
        products = measure_matmul(backend, kinds, sizes, burst, notes, on_progress)
        on_progress("matrix products without rests")
        steady = replace(plan, round_ns=plan.round_ns * SUSTAINED_ROUNDS)
        sustained = measure_sustained(backend, kinds, products, steady, notes)
        on_progress("memory")
        dram = measure_dram(backend, dram_bytes, plan, notes)
        on_progress("second-level cache")
        l2 = measure_l2(backend, sm_count, plan, notes)
        on_progress("copies from and to the host")
        host_links = links(backend, plan, notes, **({} if link_bytes is None else {"nbytes": link_bytes}))
        on_progress("other devices")
        others = peers(backend, plan, notes)
        clocks = watch.clocks()  # before others use the device's time
        backend.release()
        devices = torch.cuda.device_count() if others is not None else 1
        reduced = all_reduce(devices, notes) if devices > 1 else None
        on_progress("the shortest kernel")
        kernel_ns = shortest_kernel(backend, notes)  # last: a profiler, once started, slows launches down
    moved = [figure.mid for figure in (dram.read, dram.copy) if figure is not None]
    if not moved:
        raise GpuwhyError(f"{name}: its memory could not be measured", hint="; ".join(notes) or None)
    flops: dict[str, float] = {}
    for product in products:
        flops[product.precision] = max(flops.get(product.precision, 0.0), product.flops_per_s.mid)
    if not driver.known():
        notes.append("the driver does not tell clocks and other users of this device")
    now = datetime.datetime.now(datetime.timezone.utc)
    version, clock = driver.version(), clocks.sm and f"SM clock {clocks.sm.median:.0f} MHz"
    known = [f"torch {torch.__version__.partition('+')[0]}", version and f"driver {version}", clock]
    return Ceilings(
        device=name,
        sm_count=sm_count,
        how="measured",
        source=f"measured here on {now:%Y-%m-%d} with {', '.join(text for text in known if text)}",
        flops=flops,
        dram_bytes_per_s=max(moved),
        l2_bytes=backend.l2_bytes,
        l2_bytes_per_s=l2.read.mid if l2 else None,
        details=Details(
            measured_at=f"{now:%Y-%m-%dT%H:%M:%SZ}",
            torch=str(torch.__version__),
            driver=version,
            cuda=torch.version.cuda or torch.version.hip,
            capability=capability,
            clocks_mhz=clocks,
            matmul=products,
            sustained=sustained,
            dram=dram,
            l2=l2,
            links=host_links,
            launch=Launch(eager_ns=launch.eager_ns, graph_node_ns=launch.graph_node_ns, kernel_ns=kernel_ns),
            peers=others,
            nccl=reduced,
            notes=notes,
        ),
    )


# ---- Memory ----


def measure_dram(backend: Backend, nbytes: int, plan: Plan, notes: list[str]) -> Dram:
    """Bytes/s of reading (a sum), writing (a fill) and copying buffers much larger than the cache."""
    count = int(min(nbytes, backend.free_bytes() * DRAM_MEMORY_SHARE)) // 4
    if backend.l2_bytes and 4 * count < 8 * backend.l2_bytes:
        notes.append("memory: little is free, and part of what was moved may have stayed in the cache")
    while True:
        try:
            rates = in_turns(backend, _movers(backend, count), plan, notes)
        except Exception as error:  # see `in_turns`
            if is_out_of_memory(error) and count > LEAST_DRAM_COUNT:  # free memory may lie in pieces
                count //= 4
                continue
            notes.append(f"memory: {reason(error)}")
            return Dram()
        finally:
            backend.release()
        return Dram(**rates)


def _movers(backend: Backend, count: int) -> list[Thing]:
    source = torch.randn(count, device=backend.device, generator=dice(backend.device))
    target = torch.empty_like(source)
    return [
        Thing("read", source.sum, 4.0 * count),
        Thing("write", lambda: target.fill_(1.0), 4.0 * count),
        Thing("copy", lambda: target.copy_(source), 8.0 * count),
    ]


READ_AGAIN = """
extern "C" __global__ void read_again(const uint4* data, int count, int passes, unsigned* out) {
    unsigned sum = 0;
    for (int pass = 0; pass < passes; ++pass) {
        // Another block's part in each pass: any SM reads any part of the cache.
        int block = (blockIdx.x + pass) % gridDim.x;
        #pragma unroll 4
        for (int i = block * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
            unsigned x, y, z, w;  // .cg: past the first-level cache
            asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "l"(data + i));
            sum += x ^ y ^ z ^ w;
        }
    }
    if (sum == 0x9e3779b9u) *out = sum;  // hardly ever, but the compiler does not know
}
"""
"""No operator of torch reads its input again and again within one kernel, and a kernel that reads a cache's worth once
is over before it is under way."""


def measure_l2(backend: Backend, sm_count: int | None, plan: Plan, notes: list[str]) -> L2 | None:
    """Bytes/s that the second-level cache delivers. A third of it is read, since its halves may mirror each other."""
    if backend.l2_bytes is None or sm_count is None:
        notes.append("second-level cache: its size is not known")
        return None
    compile_kernel: Any = getattr(torch.cuda, "_compile_kernel", None)
    if compile_kernel is None or torch.version.hip:
        notes.append("second-level cache: measured only by torch 2.9 or newer with CUDA")
        return None
    count = backend.l2_bytes // 3 // 16
    try:
        data = torch.randint(0, (1 << 31) - 1, (count * 4,), device=backend.device, dtype=torch.int32)
        out = torch.zeros(1, device=backend.device, dtype=torch.int32)
        kernel = compile_kernel(READ_AGAIN, "read_again")
    except Exception as error:  # see `in_turns`
        notes.append(f"second-level cache: {reason(error)}")
        return None

    def run() -> None:
        kernel(grid=(2 * sm_count, 1, 1), block=(1024, 1, 1), args=[data, count, L2_PASSES, out])

    rates = in_turns(backend, [Thing("second-level cache", run, 16.0 * count * L2_PASSES)], plan, notes)
    return L2(buffer_bytes=16 * count, read=rates["second-level cache"]) if rates else None


# ---- Launches ----


def measure_launch(backend: Backend, plan: Plan, notes: list[str]) -> Launch:
    """Host ns of a tiny operator, and ns from node to node of a graph of them."""
    one = torch.zeros(1, device=backend.device)
    eager: list[float] = []
    for _ in range(plan.rounds + 1):
        backend.synchronize()
        start = time.perf_counter_ns()
        for _ in range(EAGER_OPS):
            torch.add(one, 1)
        eager.append((time.perf_counter_ns() - start) / EAGER_OPS)
    backend.synchronize()
    replay = backend.graph(lambda: one.add_(1), GRAPH_NODES)
    if replay is None:
        notes.append("launches: no graph could be captured")
        return Launch(eager_ns=spread(eager[1:]))
    rates = in_turns(backend, [Thing("graph nodes", replay, GRAPH_NODES)], plan, notes)
    nodes = rates.get("graph nodes")
    return Launch(
        eager_ns=spread(eager[1:]),  # the first round pays for what is loaded once
        graph_node_ns=nodes and Spread(low=1e9 / nodes.high, mid=1e9 / nodes.mid, high=1e9 / nodes.low),
    )


def shortest_kernel(backend: Backend, notes: list[str]) -> Spread | None:
    """Duration (ns) of a kernel that does next to nothing, inside a graph, as torch's profiler records it."""
    if not isinstance(backend, CudaBackend):
        return None
    try:
        one = torch.zeros(1, device=backend.device)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            replay = backend.graph(lambda: one.add_(1), PROFILED_NODES)  # captured before, it would not be recorded
            if replay is not None:
                replay()
            backend.synchronize()
        events = [event for event in profile.events() if str(event.device_type).endswith("CUDA")]
        name, count = Counter(event.name for event in events).most_common(1)[0]
        if count < PROFILED_NODES // 2:
            raise RuntimeError("the profiler recorded no kernels of a graph")
        return spread([event.time_range.elapsed_us() * 1e3 for event in events if event.name == name])
    except Exception as error:  # no CUPTI, or another profiler has it: the figure is unknown
        notes.append(f"the shortest kernel: {reason(error)}")
        return None


def _driver(device: int) -> Driver:
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)  # since torch 2.3
    return Driver(str(uuid) if uuid else None)


def _architecture(properties: Any) -> str:
    """`9.0`, or `gfx942` on AMD."""
    if torch.version.hip:
        return str(getattr(properties, "gcnArchName", "gfx")).partition(":")[0]
    return f"{properties.major}.{properties.minor}"
