"""The table of published peaks: against clocks and units, against the names of real profiles, against look-alikes."""

import gzip
import json
import re

import pytest

from gpuwhy.roofline.published import PRECISIONS, TABLE, find

WITHIN = 0.03
MIB, GIB = 1 << 20, 1 << 30

# Rates per clock of one SM or CU, from the architecture papers, in the order of PRECISIONS; 0: no such unit.
PER_CLOCK = {
    #           fp64 fp64t fp32  tf32  bf16  fp16   fp8  int8    fp4
    "pascal": (64, 0, 128, 0, 0, 256, 0, 0, 0),
    "volta": (64, 0, 128, 0, 0, 1024, 0, 0, 0),
    "turing": (4, 0, 128, 0, 0, 1024, 0, 2048, 0),
    "turing geforce": (4, 0, 128, 0, 0, 512, 0, 2048, 0),
    "ga100": (64, 128, 128, 1024, 2048, 2048, 0, 4096, 0),
    "ga102": (4, 0, 256, 512, 1024, 1024, 0, 2048, 0),
    "ga102 half": (4, 0, 256, 256, 512, 512, 0, 1024, 0),
    "ga102 geforce": (4, 0, 256, 256, 512, 512, 0, 2048, 0),
    "ada": (4, 0, 256, 512, 1024, 1024, 2048, 2048, 0),
    "ada geforce": (4, 0, 256, 256, 512, 512, 1024, 2048, 0),
    "hopper": (128, 256, 256, 2048, 4096, 4096, 8192, 8192, 0),
    "blackwell": (128, 128, 256, 4096, 8192, 8192, 16384, 16384, 32768),
    "gb202": (4, 0, 256, 512, 1024, 1024, 2048, 2048, 4096),
    "gb202 geforce": (4, 0, 256, 256, 512, 512, 1024, 2048, 4096),
    "cdna2": (128, 256, 256, 0, 1024, 1024, 0, 1024, 0),
    "cdna3": (128, 256, 256, 1024, 2048, 2048, 4096, 4096, 0),
    "cdna4": (128, 128, 256, 0, 4096, 4096, 8192, 8192, 16384),
}

# Name: architecture, SMs or CUs, boost clock in GHz of vector and of matrix units (None: none is published, only that
# it is below the vector units'), width of the memory bus in bits, its data rate in Gbit/s and pin, L2 in MiB, one name
# that drivers report.
DEVICES = {
    "P100 SXM2": ("pascal", 56, 1.480, 1.480, 4096, 1.430, 4, "Tesla P100-SXM2-16GB"),
    "P100 PCIe": ("pascal", 56, 1.328, 1.328, 4096, 1.430, 4, "Tesla P100-PCIE-16GB"),
    "Quadro GP100": ("pascal", 56, 1.442, 1.442, 4096, 1.430, 4, "Quadro GP100"),
    "V100 SXM2 16 GB": ("volta", 80, 1.530, 1.530, 4096, 1.754, 6, "Tesla V100-SXM2-16GB"),
    "V100 SXM2 32 GB": ("volta", 80, 1.530, 1.530, 4096, 1.754, 6, "Tesla V100-SXM2-32GB"),
    "V100 PCIe 16 GB": ("volta", 80, 1.380, 1.380, 4096, 1.754, 6, "Tesla V100-PCIE-16GB"),
    "V100 PCIe 32 GB": ("volta", 80, 1.380, 1.380, 4096, 1.754, 6, "Tesla V100-PCIE-32GB"),
    "V100S PCIe": ("volta", 80, 1.597, 1.597, 4096, 2.214, 6, "Tesla V100S-PCIE-32GB"),
    "T4": ("turing", 40, 1.590, 1.590, 256, 10.0, 4, "Tesla T4"),
    "RTX 2080 Ti": ("turing geforce", 68, 1.635, 1.635, 352, 14.0, 5.5, "NVIDIA GeForce RTX 2080 Ti"),
    "A100 SXM 40 GB": ("ga100", 108, 1.410, 1.410, 5120, 2.430, 40, "NVIDIA A100-SXM4-40GB"),
    "A100 SXM 80 GB": ("ga100", 108, 1.410, 1.410, 5120, 3.186, 40, "NVIDIA A100-SXM4-80GB"),
    "A100 PCIe 40 GB": ("ga100", 108, 1.410, 1.410, 5120, 2.430, 40, "NVIDIA A100-PCIE-40GB"),
    "A100 PCIe 80 GB": ("ga100", 108, 1.410, 1.410, 5120, 3.024, 40, "NVIDIA A100 80GB PCIe"),
    "A10": ("ga102", 72, 1.695, 1.695, 384, 12.5, 6, "NVIDIA A10"),
    "A10G": ("ga102 half", 80, 1.710, 1.710, 384, 12.5, 6, "NVIDIA A10G"),
    "A40": ("ga102", 84, 1.740, 1.740, 384, 14.5, 6, "NVIDIA A40"),
    "RTX A6000": ("ga102", 84, 1.800, 1.800, 384, 16.0, 6, "NVIDIA RTX A6000"),
    "RTX 3090": ("ga102 geforce", 82, 1.695, 1.695, 384, 19.5, 6, "NVIDIA GeForce RTX 3090"),
    "L4": ("ada", 58, 2.040, 2.040, 192, 12.5, 48, "NVIDIA L4"),
    "L40S": ("ada", 142, 2.520, 2.520, 384, 18.0, 96, "NVIDIA L40S"),
    "RTX 6000 Ada": ("ada", 142, 2.505, 2.505, 384, 20.0, 96, "NVIDIA RTX 6000 Ada Generation"),
    "RTX 4090": ("ada geforce", 128, 2.520, 2.520, 384, 21.0, 72, "NVIDIA GeForce RTX 4090"),
    "H100 SXM": ("hopper", 132, 1.980, 1.830, 5120, 5.240, 50, "NVIDIA H100 80GB HBM3"),
    "H100 PCIe": ("hopper", 114, 1.755, 1.620, 5120, 3.186, 50, "NVIDIA H100 PCIe"),
    "H100 NVL": ("hopper", 132, 1.785, None, 6144, 5.100, None, "NVIDIA H100 NVL"),
    "H200 SXM": ("hopper", 132, 1.980, 1.830, 6144, 6.250, None, "NVIDIA H200"),
    "H200 NVL": ("hopper", 132, 1.785, None, 6144, 6.250, None, "NVIDIA H200 NVL"),
    "B200": ("blackwell", 148, 1.965, None, 7680, 8.000, 126.5, "NVIDIA B200"),
    "GB200": ("blackwell", 152, 2.062, None, 8192, 8.000, None, "NVIDIA GB200"),
    "RTX 5090": ("gb202 geforce", 170, 2.407, 2.407, 512, 28.0, 96, "NVIDIA GeForce RTX 5090"),
    "RTX PRO 6000 Workstation": (
        *("gb202", 188, 2.617, 2.617, 512, 28.0, 128),
        "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
    ),
    "RTX PRO 6000 Max-Q": (
        *("gb202", 188, 2.280, 2.280, 512, 28.0, 128),
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
    ),
    "RTX PRO 6000 Server": (
        *("gb202", 188, 2.430, 2.430, 512, 25.0, 128),
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    ),
    "MI210": ("cdna2", 104, 1.700, 1.700, 4096, 3.2, 8, "AMD Instinct MI210"),
    "MI250 GCD": ("cdna2", 104, 1.700, 1.700, 4096, 3.2, 8, "AMD Instinct MI250"),
    "MI250X GCD": ("cdna2", 110, 1.700, 1.700, 4096, 3.2, 8, "AMD Instinct MI250X"),
    "MI300A": ("cdna3", 228, 2.100, 2.100, 8192, 5.2, 24, "AMD Instinct MI300A"),
    "MI300X": ("cdna3", 304, 2.100, 2.100, 8192, 5.2, 32, "AMD Instinct MI300X"),
    "MI325X": ("cdna3", 304, 2.100, 2.100, 8192, 6.0, 32, "AMD Instinct MI325X"),
    "MI355X": ("cdna4", 256, 2.400, 2.400, 8192, 8.0, 32, "AMD Instinct MI355X"),
}

rows = pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)


def test_every_row_is_cross_checked():
    assert [row.name for row in TABLE] == list(DEVICES)


@rows
def test_peaks_are_units_times_rate_times_clock(row):
    architecture, units, vector_ghz, matrix_ghz, *_ = DEVICES[row.name]
    assert row.sm_count == units
    assert set(row.flops) == {p for p, rate in zip(PRECISIONS, PER_CLOCK[architecture], strict=True) if rate}
    for precision, per_clock in zip(PRECISIONS, PER_CLOCK[architecture], strict=True):
        if not per_clock:
            continue
        ghz = row.flops[precision] / units / per_clock / 1e9
        if precision in ("fp64", "fp64_tensor", "fp32"):
            assert ghz == pytest.approx(vector_ghz, rel=WITHIN), precision
        elif matrix_ghz is None:
            assert 0.85 * vector_ghz < ghz < vector_ghz, precision
        else:
            assert ghz == pytest.approx(matrix_ghz, rel=WITHIN), precision


@rows
def test_bandwidths_are_bus_width_times_data_rate(row):
    _, _, _, _, bus_bits, gbit_per_s, l2_mib, _ = DEVICES[row.name]
    assert row.dram_bytes_per_s == pytest.approx(bus_bits * gbit_per_s * 1e9 / 8, rel=WITHIN)
    assert row.l2_bytes == (None if l2_mib is None else l2_mib * MIB)


@rows
def test_rates_stand_in_the_order_that_hardware_has(row):
    rates = row.flops
    for slower, faster in (("fp64", "fp32"), ("fp64", "fp64_tensor"), ("fp32", "bf16"), ("bf16", "int8")):
        if slower in rates and faster in rates:
            assert rates[slower] <= rates[faster], (slower, faster)
    for slower, faster in (("tf32", "bf16"), ("bf16", "fp8"), ("fp8", "fp4")):
        if slower in rates and faster in rates:
            assert rates[slower] < rates[faster], (slower, faster)
    assert "bf16" not in rates or rates["bf16"] == rates["fp16"]


@rows
def test_nothing_is_zero_and_each_number_has_a_source(row):
    fields = ["sm_count", "dram_bytes_per_s", "dram_bytes"] + (["l2_bytes"] if row.l2_bytes is not None else [])
    assert all(getattr(row, field) > 0 for field in fields)
    assert row.dram_bytes % GIB == 0
    assert row.flops
    assert all(isinstance(rate, float) and 1e11 < rate < 2e16 for rate in row.flops.values())
    for field in (*fields, *(f"flops.{precision}" for precision in row.flops)):
        assert re.search(r"https://\w|white paper|data sheet|driver", row.source(field)), field
    known = {"row", "flops", *fields, *(f"flops.{precision}" for precision in row.flops)}
    assert set(row.sources) <= known, "a source of a number that the row does not have"


@rows
def test_every_row_is_found_by_a_name_that_drivers_report(row):
    _, units, *_, reported = DEVICES[row.name]
    for name in (reported, reported.upper(), f" {reported} "):
        assert find(name) is row
        assert find(name, units) is row


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("A100-SXM4-40GB", "A100 SXM 40 GB"),  # drivers before 2021 left out the vendor
        ("A100-SXM-80GB", "A100 SXM 80 GB"),
        ("NVIDIA A100-PCIE-80GB", "A100 PCIe 80 GB"),
        ("GeForce RTX 3090", "RTX 3090"),
        ("NVIDIA H100 80GB HBM2e", "H100 PCIe"),
        ("AMD Instinct MI300X OAM", "MI300X"),
        ("AMD Instinct MI300X VF", "MI300X"),
        ("AMD Instinct MI355X VF", "MI355X"),
        ("AMD INSTINCT MI250X", "MI250X GCD"),
    ],
)
def test_other_spellings_of_a_device_find_it(name, expected):
    row = find(name)
    assert row is not None
    assert row.name == expected


@pytest.mark.parametrize(
    "name",
    [
        *(None, "", "  ", "unknown", "NVIDIA", "AMD Instinct"),
        *("AMD Radeon Graphics", "NVIDIA Graphics Device", "NVIDIA Device", "Tesla", "NVIDIA RTX PRO 6000"),
        *("NVIDIA A100X", "NVIDIA A1000", "NVIDIA RTX A1000", "NVIDIA A16", "NVIDIA A10M", "NVIDIA A10-24Q"),
        *("NVIDIA A100", "NVIDIA A100-SXM-64GB", "NVIDIA A100-PG506-207", "GRID A100-40C", "NVIDIA A800-SXM4-80GB"),
        *("NVIDIA L40", "NVIDIA L40G", "NVIDIA L20", "NVIDIA L4-24Q", "NVIDIA T4G", "NVIDIA T400", "NVIDIA T4 32GB"),
        *("NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 5090 D"),
        *("NVIDIA GeForce RTX 3090 Ti", "NVIDIA GeForce RTX 2080", "NVIDIA GeForce RTX 5090 Laptop GPU"),
        *("NVIDIA GH200 480GB", "NVIDIA H800", "NVIDIA H800 PCIe", "NVIDIA H20", "NVIDIA H100", "NVIDIA H100L 94GB"),
        *("NVIDIA B100", "NVIDIA B300", "NVIDIA GB300", "NVIDIA GB10", "NVIDIA GB200 NVL72"),
        *("Tesla V100-FHHL-16GB", "Tesla V100-SXM3-32GB", "Tesla V100-SXM2-32GB-LS", "Tesla P100-PCIE-12GB"),
        *("AMD Instinct MI300", "AMD Instinct MI308X", "AMD Instinct MI350X", "AMD Instinct MI100", "AMD Instinct MI2"),
        *("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA A100-SXM4-40GB MIG 7g.40gb", "NVIDIA H200 MIG 3g.71gb"),
        "NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 2g.48gb",
    ],
)
def test_other_devices_and_slices_get_no_peaks(name):
    assert find(name) is None
    assert find(name, 132) is None


def test_look_alikes_are_told_apart():
    for name, expected in (
        ("NVIDIA A10", "A10"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA GB200", "GB200"),
        ("NVIDIA H200", "H200 SXM"),
        ("NVIDIA H200 NVL", "H200 NVL"),
    ):
        row = find(name)
        assert row is not None
        assert row.name == expected


@pytest.mark.parametrize(
    ("name", "sm_count", "found"),
    [
        ("NVIDIA H100 80GB HBM3", 132, True),
        ("NVIDIA H100 80GB HBM3", 119, True),
        ("NVIDIA H100 80GB HBM3", 118, False),  # 89.4 %
        ("NVIDIA H100 80GB HBM3", 16, False),
        ("NVIDIA H100 80GB HBM3", 0, False),
        ("NVIDIA H100 80GB HBM3", 264, False),
        ("AMD Instinct MI300X", 38, False),  # one die of eight, as the partition mode CPX shows it
        ("AMD Instinct MI210", 104, True),
    ],
)
def test_a_device_with_other_units_than_the_row_is_not_the_rows(name, sm_count, found):
    assert (find(name, sm_count) is not None) == found


@pytest.mark.parametrize("name", ["AMD Instinct MI250X / MI250", "AMD Instinct MI250X/MI250"])
def test_a_name_of_two_models_is_decided_by_the_units(name):
    assert find(name) is None
    for sm_count, expected in ((104, "MI250 GCD"), (110, "MI250X GCD")):
        row = find(name, sm_count)
        assert row is not None
        assert row.name == expected
    assert find(name, 60) is None


# All devices in the recorded profiles of ../shared: name, SMs.
RECORDED = {
    ("", 304): None,
    ("AMD Instinct MI210", 104): "MI210",
    ("AMD Instinct MI300X", 304): "MI300X",
    ("AMD Radeon Graphics", 104): None,  # a GCD of MI250, but so may others be
    ("NVIDIA A100 80GB PCIe", 108): "A100 PCIe 80 GB",
    ("NVIDIA A100-PCIE-40GB", 108): "A100 PCIe 40 GB",
    ("NVIDIA A100-PG509-200", 108): "A100 SXM 40 GB",
    ("NVIDIA A100-SXM4-40GB", 108): "A100 SXM 40 GB",
    ("NVIDIA B200", 148): "B200",
    ("NVIDIA GeForce RTX 4090", 128): "RTX 4090",
    ("NVIDIA H100 NVL", 132): "H100 NVL",
    ("NVIDIA H200", 132): "H200 SXM",
    ("NVIDIA PG509-210", 108): "A100 SXM 80 GB",
    ("Quadro GP100", 56): "Quadro GP100",
    ("Tesla V100-DGXS-32GB", None): "V100 SXM2 32 GB",
    ("Tesla V100-SXM2-16GB", 80): "V100 SXM2 16 GB",
    ("Tesla V100-SXM2-32GB", 80): "V100 SXM2 32 GB",
}


@pytest.mark.parametrize(("device", "expected"), RECORDED.items(), ids=str)
def test_devices_of_recorded_profiles(device, expected):
    row = find(*device)
    assert (row.name if row else None) == expected


def test_recorded_profiles_have_these_devices_with_the_memory_of_the_table(shared_dir):
    seen = set()
    for path in shared_dir.glob("*/**/*"):
        if not path.name.endswith((".json", ".json.gz")):
            continue
        data = gzip.decompress(path.read_bytes()) if path.name.endswith(".gz") else path.read_bytes()
        key = re.search(rb'"(?:device|compute)Properties"\s*:\s*', data)
        if not key:
            continue
        text = data[key.end() : key.end() + (1 << 16)].decode(errors="replace")
        for device in json.JSONDecoder().raw_decode(text)[0]:
            seen.add((device["name"], device.get("numSms")))
            row = find(device["name"], device.get("numSms"))
            if row:  # drivers keep up to a few per cent for themselves
                assert 0.95 < device["totalGlobalMem"] / row.dram_bytes <= 1, (path, row.name)
    assert seen <= set(RECORDED), "decide what a new device finds, and add it"
