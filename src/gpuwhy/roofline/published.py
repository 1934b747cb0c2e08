"""Published peaks of GPUs by the name that the driver reports: the ceilings where nothing was measured on the device.

Units: FLOP/s (OP/s for int8), bytes per second, bytes. Peaks are *dense*: where a source prints rates 'with sparsity',
the row holds half of them. Capacities are binary (a '80 GB' GPU has 80 × 2^30 bytes); bandwidths are decimal.

What the keys of `Published.flops` stand for:

- `fp64` and `fp32` are rates of vector units, `fp64_tensor` is the matrix units' rate; the others are matrix units'.
- 16 and 8 bit floats accumulate in fp32, as PyTorch does. GeForce cards do that at half of the rate that is printed
  large; data centre and RTX PRO cards at the full rate.
- `fp32` of the MI200 series is the rate of packed instructions, which matrix units reach too (twice the 'FP32 vector'
  of the data sheet): rocBLAS uses them, and a ceiling must hold for them. On the MI300 series the two are the same.
- `fp16` of Pascal, which has no matrix units, is the rate of packed vector instructions.
- A precision that the device has no unit for, or that no source gives, is absent.

A row describes the device that a profile sees: MI250 and MI250X are cards of two devices (GCDs), each with half of the
card's units, memory and bandwidth. A slice (MIG, compute partitions, vGPU) is another device, and has no row.
Clocks are the boost clocks of the reference card; a device that is capped lower cannot reach these peaks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

PRECISIONS = ("fp64", "fp64_tensor", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4")

NEAREST_SHARE = 0.9
"""A device with fewer SMs than this share of the row's, or with more by as much, is not the row's device.

Slices have at most 4/7 of a device (MIG) or half of it; models that share a name differ by 6 % (MI250, MI250X)."""


@dataclass(frozen=True)
class Published:
    """One device. `sm_count`: SMs, or compute units; `l2_bytes` in all, though on chiplets each die caches for itself.

    `sources` is keyed by 'row' (all that has no key of its own), a field, or one rate as in 'flops.fp64'.
    """

    name: str
    pattern: str
    sm_count: int
    flops: Mapping[str, float]
    dram_bytes_per_s: float
    dram_bytes: int
    l2_bytes: int | None
    sources: Mapping[str, str]

    def source(self, field: str) -> str:
        """Where a number comes from: the address or the title of a document. `field` as the keys of `sources`."""
        for key in (field, field.partition(".")[0], "row"):
            if key in self.sources:
                return self.sources[key]
        raise KeyError(field)


def find(name: str | None, sm_count: int | None = None) -> Published | None:
    """The row of a device by the name that CUDA or HIP reports; None for what is not surely one of the table.

    A few names stand for two models ('AMD Instinct MI250X / MI250'): `sm_count` decides; without it there is no row.
    """
    rows = [row for row in TABLE if re.fullmatch(row.pattern, (name or "").strip(), re.IGNORECASE)]
    if sm_count is not None:
        rows = [row for row in rows if NEAREST_SHARE <= sm_count / row.sm_count <= 2 - NEAREST_SHARE]
        return min(rows, key=lambda row: abs(sm_count - row.sm_count), default=None)
    return rows[0] if len(rows) == 1 else None


# --- sources --------------------------------------------------------------------------------------------------------

_IMAGES = "https://images.nvidia.com/"
_NVIDIA = "https://www.nvidia.com/content/dam/en-zz/Solutions/"
_AMD = "https://www.amd.com/content/dam/amd/en/documents/"

_PASCAL = "NVIDIA Tesla P100 white paper WP-08019-001 (Pascal architecture)"
_VOLTA = _IMAGES + "content/volta-architecture/pdf/volta-architecture-whitepaper.pdf"
_TURING = "NVIDIA Turing GPU Architecture white paper WP-09183-001, appendices A (RTX 2080 Ti) and B (Tesla T4)"
_GA102 = "https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf"
_ADA = _IMAGES + "aem-dam/Solutions/Data-Center/l4/nvidia-ada-gpu-architecture-whitepaper-V2.02.pdf"
_ADA_PRO = _IMAGES + "aem-dam/en-zz/Solutions/technologies/NVIDIA-ADA-GPU-PROVIZ-Architecture-Whitepaper_1.1.pdf"
_HOPPER = "https://resources.nvidia.com/en-us-tensor-core/gtc22-whitepaper-hopper"
_GB202 = _IMAGES + "aem-dam/Solutions/geforce/blackwell/nvidia-rtx-blackwell-gpu-architecture.pdf"
_RTX_PRO = (
    _NVIDIA + "design-visualization/quadro-product-literature/pdf/NVIDIA-RTX-Blackwell-PRO-GPU-Architecture-v1_1.pdf"
)
_BLACKWELL = "https://nvdam.widen.net/s/wwnsxrhm2w/blackwell-datasheet-3384703 (half of the sparse rates)"
_H100 = "https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet"
_H200 = "https://nvdam.widen.net/s/nb5zzzsjdf/hpc-datasheet-sc23-h200-datasheet-3002446"
_DRIVER = "as the device's driver reports"
_ROCM = "https://rocm.docs.amd.com/en/latest/reference/gpu-specs.html"

_SOURCES: dict[str, dict[str, str]] = {
    "P100": {"row": "NVIDIA Tesla P100 data sheet", "sm_count": _PASCAL, "l2_bytes": _PASCAL},
    "GP100": {"row": "NVIDIA Quadro GP100 data sheet", "sm_count": _DRIVER, "l2_bytes": _PASCAL},
    # Four V100 of a DGX Station ('DGXS') have the 500 TFLOPS in fp16 of four SXM2 (its white paper WP-V01).
    "V100": {
        "row": _IMAGES + "content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf",
        "sm_count": _VOLTA,
        "l2_bytes": _VOLTA,
    },
    "T4": {
        "row": _NVIDIA + "Data-Center/tesla-t4/t4-tensor-core-datasheet-951643.pdf",
        "sm_count": _TURING,
        "flops.fp64": _TURING + ": 1/32 of fp32",
        "dram_bytes_per_s": _TURING + "; the data sheet rounds to 300 GB/s",
        "l2_bytes": _TURING,
    },
    "TU102": {"row": _TURING + ", Founders Edition", "flops.fp64": _TURING + ": 1/32 of fp32"},
    # PG509-200 and PG509-210 have the PCI device of the two SXM4 cards (20B0, 20B2), says NVIDIA's list of chips:
    # https://github.com/NVIDIA/open-gpu-kernel-modules/blob/main/README.md
    "A100": {
        "row": _NVIDIA + "Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf",
        "sm_count": _IMAGES + "aem-dam/en-zz/Solutions/data-center/nvidia-ampere-architecture-whitepaper.pdf",
        "l2_bytes": _IMAGES + "aem-dam/en-zz/Solutions/data-center/nvidia-ampere-architecture-whitepaper.pdf",
    },
    "A10": {
        "row": _NVIDIA + "Data-Center/a10/pdf/a10-datasheet.pdf",
        "flops.fp64": _GA102 + ": 1/64 of fp32",
        "l2_bytes": _GA102,
    },
    "A10G": {
        "row": "https://d1.awsstatic.com/product-marketing/ec2/NVIDIA_AWS_A10G_DataSheet_FINAL_02_17_2022.pdf",
        "flops.fp64": _GA102 + ": 1/64 of fp32",
        "l2_bytes": _GA102,
    },
    "A40": {
        "row": "https://images.nvidia.cn/content/Solutions/data-center/a40/nvidia-a40-datasheet.pdf",
        "flops.fp64": _GA102 + ": 1/64 of fp32",
        "l2_bytes": _GA102,
    },
    "GA102": {"row": _GA102, "flops.fp64": _GA102 + ": 1/64 of fp32"},
    "L4": {
        "row": "https://resources.nvidia.com/en-us-data-center-overview/l4-gpu-datasheet (half of the sparse rates)",
        "sm_count": _ADA,
        "flops.fp64": _ADA + ": 1/64 of fp32",
        "l2_bytes": _ADA,
    },
    "L40S": {
        "row": "https://resources.nvidia.com/en-us-l40s/l40s-datasheet-28413",
        "flops.fp64": _ADA + ": 1/64 of fp32",
        "l2_bytes": _ADA,
    },
    "AD102": {"row": _ADA, "flops.fp64": _ADA + ": 1/64 of fp32"},
    "Ada PRO": {"row": _ADA_PRO, "flops.fp64": _ADA_PRO + ": 1/64 of fp32"},
    "H100": {"row": _HOPPER, "dram_bytes_per_s": _H100},
    "H100 PCIe": {
        "row": _H100 + ", edition with the PCIe card (half of the sparse rates)",
        **dict.fromkeys(("sm_count", "flops.fp64", "flops.fp64_tensor", "flops.fp32", "l2_bytes"), _HOPPER),
    },
    "H100 NVL": {"row": _H100 + " (half of the sparse rates)", "sm_count": _DRIVER},
    "H200": {"row": _H200, "flops": _HOPPER + "; the data sheet of H200 rounds the same rates", "sm_count": _DRIVER},
    "H200 NVL": {"row": _H200 + " (half of the sparse rates)", "sm_count": _DRIVER},
    "B200": {
        "row": _BLACKWELL,
        "flops.tf32": _BLACKWELL + "; half of bf16, where the sheet rounds to 2.2 PFLOPS with sparsity",
        "sm_count": _DRIVER,
        "l2_bytes": "https://github.com/pytorch/ao/pull/4002 (" + _DRIVER + ")",
    },
    "GB200": {"row": _BLACKWELL, "sm_count": _DRIVER},
    "GB202": {"row": _GB202, "flops.fp64": _GB202 + ": 1/64 of fp32"},
    "RTX PRO": {"row": _RTX_PRO, "flops.fp64": _RTX_PRO + ": 1/64 of fp32"},
    "Max-Q": {
        "row": _NVIDIA + "products/workstations/professional-desktop-gpus/rtx-pro-6000-max-q/"
        "workstation-datasheet-blackwell-rtx-pro-6000-max-q-nvidia-3519233.pdf",
        # From the sheet's 3511 TOPS in FP4 with sparsity, by the ratios between formats in the white paper's table 4.
        **dict.fromkeys(
            ("flops.tf32", "flops.bf16", "flops.fp16", "flops.fp8", "flops.int8", "sm_count", "l2_bytes"), _RTX_PRO
        ),
        "flops.fp64": _RTX_PRO + ": 1/64 of fp32",
    },
    "Server": {
        "row": "https://www.nvidia.com/en-us/data-center/rtx-pro-6000-blackwell-server-edition/",
        # Tensor rates: the page rounds to 1, 2 and 4 PFLOPS with sparsity. These are NVIDIA's at the boost clock of
        # the card's product brief (SP-12355-001).
        **dict.fromkeys(
            ("flops.bf16", "flops.fp16", "flops.fp8", "flops.int8", "flops.fp4"),
            "https://github.com/ai-dynamo/aiconfigurator, src/aiconfigurator/systems/rtx_pro_6000_server.yaml",
        ),
        "flops.fp64": _RTX_PRO + ": 1/64 of fp32",
        "sm_count": _RTX_PRO,
        "l2_bytes": _RTX_PRO,
    },
    "MI200": {
        "row": _AMD + "instinct-business-docs/white-papers/amd-cdna2-white-paper.pdf, table 1 and endnotes 5 and 10",
        "l2_bytes": _ROCM,
    },
    "MI300": {
        "row": _AMD + "instinct-tech-docs/white-papers/amd-cdna-3-white-paper.pdf, table 2 and endnote MI300-13",
        "l2_bytes": _ROCM + " (4 MiB a die)",
    },
    "MI355X": {
        "row": "https://www.amd.com/en/products/accelerators/instinct/mi350/mi355x.html",
        # It rounds rates above 1000 to PFLOPS: the digits are from its formula (1024 matrix cores at 2400 MHz).
        **dict.fromkeys(
            ("flops.fp64_tensor", "flops.fp32", "flops.bf16", "flops.fp16", "flops.fp8", "flops.fp4"),
            "https://rocm.blogs.amd.com/software-tools-optimization/matrix-cores-cdna/README.html, section 1",
        ),
        "sm_count": _ROCM,
        "dram_bytes": _ROCM,
        "l2_bytes": _ROCM + " (4 MiB a die)",
    },
}

# --- numbers --------------------------------------------------------------------------------------------------------

# fmt: off
_RATES: dict[str, tuple[float | None, ...]] = {  # TFLOP/s, dense, in the order of PRECISIONS
    #                 fp64   fp64_t     fp32     tf32     bf16     fp16      fp8     int8      fp4
    "P100 SXM":  (    5.3,    None,    10.6,    None,    None,    21.2,    None,    None,    None),
    "P100 PCIe": (    4.7,    None,     9.3,    None,    None,    18.7,    None,    None,    None),
    "GP100":     (    5.2,    None,    10.3,    None,    None,    20.7,    None,    None,    None),
    "V100 SXM":  (    7.8,    None,    15.7,    None,    None,     125,    None,    None,    None),
    "V100 PCIe": (      7,    None,      14,    None,    None,     112,    None,    None,    None),
    "V100S":     (    8.2,    None,    16.4,    None,    None,     130,    None,    None,    None),
    "T4":        (  0.253,    None,     8.1,    None,    None,      65,    None,     130,    None),
    "2080 Ti":   (  0.444,    None,    14.2,    None,    None,    56.9,    None,   227.7,    None),
    "A100":      (    9.7,    19.5,    19.5,     156,     312,     312,    None,     624,    None),
    "A10":       ( 0.4875,    None,    31.2,    62.5,     125,     125,    None,     250,    None),
    "A10G":      (  0.547,    None,      35,      35,      70,      70,    None,     140,    None),
    "A40":       (  0.584,    None,    37.4,    74.8,   149.7,   149.7,    None,   299.3,    None),
    "A6000":     (  0.605,    None,    38.7,    77.4,   154.8,   154.8,    None,   309.7,    None),
    "3090":      (  0.556,    None,    35.6,    35.6,      71,      71,    None,     284,    None),
    "L4":        (  0.473,    None,    30.3,      60,     121,     121,   242.5,   242.5,    None),
    "L40S":      (  1.431,    None,    91.6,     183,  362.05,  362.05,     733,     733,    None),
    "6000 Ada":  (  1.423,    None,    91.1,   182.1,   364.2,   364.2,   728.5,   728.5,    None),
    "4090":      (  1.291,    None,    82.6,    82.6,   165.2,   165.2,   330.3,   660.6,    None),
    "H100 SXM":  (   33.5,    66.9,    66.9,   494.7,   989.4,   989.4,  1978.9,  1978.9,    None),
    "H100 PCIe": (   25.6,    51.2,    51.2,     378,   756.5,   756.5,    1513,    1513,    None),
    "H100 NVL":  (     30,      60,      60,   417.5,   835.5,   835.5,  1670.5,  1670.5,    None),
    "B200":      (     37,      37,      75,    1125,    2250,    2250,    4500,    4500,    9000),
    "GB200":     (     40,      40,      80,    1250,    2500,    2500,    5000,    5000,   10000),
    "5090":      (  1.637,    None,   104.8,   104.8,   209.5,   209.5,     419,     838,    1676),
    "PRO":       (  1.969,    None,     126,   251.9,   503.8,   503.8,  1007.6,  1007.6,  2015.2),
    "PRO Max-Q": (  1.719,    None,     110,   219.5,   438.9,   438.9,   877.8,   877.8,  1755.5),
    "PRO SE":    (  1.875,    None,     120,     234,   467.8,   467.8,   935.6,   935.6,  1871.2),
    "MI210":     (   22.6,    45.3,    45.3,    None,     181,     181,    None,     181,    None),
    "MI250":     (  22.65,   45.25,   45.25,    None,  181.05,  181.05,    None,  181.05,    None),
    "MI250X":    (  23.95,   47.85,   47.85,    None,   191.5,   191.5,    None,   191.5,    None),
    "MI300A":    (   61.3,   122.6,   122.6,   490.3,   980.6,   980.6,  1961.2,  1961.2,    None),
    "MI300X":    (   81.7,   163.4,   163.4,   653.7,  1307.4,  1307.4,  2614.9,  2614.9,    None),
    "MI355X":    (   78.6,    78.6,   157.3,    None,  2516.6,  2516.6,  5033.2,  5033.2, 10066.3),
}

_PRO = "RTX PRO 6000 Blackwell "
_DEVICES: tuple[tuple[str, str, str, int, int, float, float | None, str], ...] = (
    # name, rates, sources, SMs or CUs, GiB, GB/s, MiB of L2, reported as (after the vendor)
    ("P100 SXM2",                "P100 SXM",  "P100",       56,  16,    732,     4, r"Tesla P100-SXM2-16GB"),
    ("P100 PCIe",                "P100 PCIe", "P100",       56,  16,    732,     4, r"Tesla P100-PCIE-16GB"),
    ("Quadro GP100",             "GP100",     "GP100",      56,  16,    717,     4, r"Quadro GP100"),
    ("V100 SXM2 16 GB",          "V100 SXM",  "V100",       80,  16,    900,     6, r"Tesla V100-(SXM2|DGXS)-16GB"),
    ("V100 SXM2 32 GB",          "V100 SXM",  "V100",       80,  32,    900,     6, r"Tesla V100-(SXM2|DGXS)-32GB"),
    ("V100 PCIe 16 GB",          "V100 PCIe", "V100",       80,  16,    900,     6, r"Tesla V100-PCIE-16GB"),
    ("V100 PCIe 32 GB",          "V100 PCIe", "V100",       80,  32,    900,     6, r"Tesla V100-PCIE-32GB"),
    ("V100S PCIe",               "V100S",     "V100",       80,  32,   1134,     6, r"Tesla V100S-PCIE-32GB"),
    ("T4",                       "T4",        "T4",         40,  16,    320,     4, r"(Tesla )?T4"),
    ("RTX 2080 Ti",              "2080 Ti",   "TU102",      68,  11,    616,   5.5, r"GeForce RTX 2080 Ti"),
    ("A100 SXM 40 GB",           "A100",      "A100",      108,  40,   1555,    40, r"A100-(SXM4?-40GB|PG509-200)"),
    ("A100 SXM 80 GB",           "A100",      "A100",      108,  80,   2039,    40, r"(A100-SXM4?-80GB|PG509-210)"),
    ("A100 PCIe 40 GB",          "A100",      "A100",      108,  40,   1555,    40, r"A100-PCIE-40GB"),
    ("A100 PCIe 80 GB",          "A100",      "A100",      108,  80,   1935,    40, r"A100(-PCIE-80GB| 80GB PCIe)"),
    ("A10",                      "A10",       "A10",        72,  24,    600,     6, r"A10"),
    ("A10G",                     "A10G",      "A10G",       80,  24,    600,     6, r"A10G"),
    ("A40",                      "A40",       "A40",        84,  48,    696,     6, r"A40"),
    ("RTX A6000",                "A6000",     "GA102",      84,  48,    768,     6, r"RTX A6000"),
    ("RTX 3090",                 "3090",      "GA102",      82,  24,    936,     6, r"GeForce RTX 3090"),
    ("L4",                       "L4",        "L4",         58,  24,    300,    48, r"L4"),
    ("L40S",                     "L40S",      "L40S",      142,  48,    864,    96, r"L40S"),
    ("RTX 6000 Ada",             "6000 Ada",  "Ada PRO",   142,  48,    960,    96, r"RTX 6000 Ada Generation"),
    ("RTX 4090",                 "4090",      "AD102",     128,  24,   1008,    72, r"GeForce RTX 4090"),
    ("H100 SXM",                 "H100 SXM",  "H100",      132,  80,   3350,    50, r"H100 80GB HBM3"),
    ("H100 PCIe",                "H100 PCIe", "H100 PCIe", 114,  80,   2000,    50, r"H100 (PCIe|80GB HBM2e)"),
    ("H100 NVL",                 "H100 NVL",  "H100 NVL",  132,  94,   3900,  None, r"H100 NVL"),
    ("H200 SXM",                 "H100 SXM",  "H200",      132, 141,   4800,  None, r"H200"),
    ("H200 NVL",                 "H100 NVL",  "H200 NVL",  132, 141,   4800,  None, r"H200 NVL"),
    ("B200",                     "B200",      "B200",      148, 180,   7700, 126.5, r"B200"),
    ("GB200",                    "GB200",     "GB200",     152, 186,   8000,  None, r"GB200"),
    ("RTX 5090",                 "5090",      "GB202",     170,  32,   1792,    96, r"GeForce RTX 5090"),
    ("RTX PRO 6000 Workstation", "PRO",       "RTX PRO",   188,  96,   1792,   128, _PRO + "Workstation Edition"),
    ("RTX PRO 6000 Max-Q",       "PRO Max-Q", "Max-Q",     188,  96,   1792,   128, _PRO + "Max-Q Workstation Edition"),
    ("RTX PRO 6000 Server",      "PRO SE",    "Server",    188,  96,   1597,   128, _PRO + "Server Edition"),
    ("MI210",                    "MI210",     "MI200",     104,  64, 1638.4,     8, r"MI210"),
    ("MI250 GCD",                "MI250",     "MI200",     104,  64, 1638.4,     8, r"(MI250X ?/ ?)?MI250"),
    ("MI250X GCD",               "MI250X",    "MI200",     110,  64, 1638.4,     8, r"MI250X( ?/ ?MI250)?"),
    ("MI300A",                   "MI300A",    "MI300",     228, 128,   5325,    24, r"MI300A"),
    ("MI300X",                   "MI300X",    "MI300",     304, 192,   5325,    32, r"MI300X( OAM| VF)?"),
    ("MI325X",                   "MI300X",    "MI300",     304, 256,   6000,    32, r"MI325X( OAM| VF)?"),
    ("MI355X",                   "MI355X",    "MI355X",    256, 288,   8000,    32, r"MI355X( OAM| VF)?"),
)
# fmt: on


def _row(
    name: str,
    rates: str,
    sources: str,
    sm_count: int,
    dram_gib: int,
    dram_gb_per_s: float,
    l2_mib: float | None,
    pattern: str,
) -> Published:
    return Published(
        name=name,
        pattern=("AMD Instinct " if name.startswith("MI") else "(NVIDIA )?") + pattern,
        sm_count=sm_count,
        flops={key: round(rate * 1e12, -8) for key, rate in zip(PRECISIONS, _RATES[rates], strict=True) if rate},
        dram_bytes_per_s=dram_gb_per_s * 1e9,
        dram_bytes=dram_gib << 30,
        l2_bytes=None if l2_mib is None else round(l2_mib * 2**20),
        sources=_SOURCES[sources],
    )


TABLE = tuple(_row(*device) for device in _DEVICES)
