"""Pages of exporters: every case as `expected.json` says, and the samples of each exporter."""

from __future__ import annotations

import json
import re
from math import isfinite
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.exposition import PageError
from sidecar.gpu import pages
from sidecar.gpu.collection import Blocks
from sidecar.gpu.pages import BY_SOURCE, TABLES, detect, read, read_with
from sidecar.schema import SIGNALS

HERE = Path(__file__).parent
EXPECTED = json.loads((HERE / "cases" / "expected.json").read_text())
CASES = sorted(name for name in EXPECTED if name.endswith(".prom"))
SAMPLES = {
    "amd_device_metrics_exporter_docs": "amd",
    "amd_device_metrics_exporter_mi300x_shape": "amd",
    "dcgm_exporter_a100_mig_docs": "dcgm",
    "dcgm_exporter_blank_readme": "dcgm",
    "dcgm_exporter_l4_580": "dcgm",
    "dcgm_exporter_t4_k8s_2026": "dcgm",
    "intel_xpumd_shape": "intel",
    "nim_embedding_gpu": "nim",
    "triton_gpu_values_zero": "triton",
    "triton_t4_gpu": "triton",
}


def sample(name):
    return (HERE / "samples" / f"{name}.prom").read_bytes()


def dcgm(*rows, **labels):
    """A page of dcgm-exporter: rows are `name{labels} value`, the GPU's labels are filled in."""
    base = ",".join(f'{name}="{value}"' for name, value in ({"gpu": "0", "UUID": "GPU-1"} | labels).items())
    lines = [re.sub(r"^(\w+)\{", rf"\1{{{base},", row) if "{" in row else row for row in rows]
    return "".join(f"{line}\n" for line in lines).encode()


def test_no_case_and_no_sample_is_left_out():
    assert {path.name for path in (HERE / "cases").glob("*.prom")} == set(CASES)
    assert {path.stem for path in (HERE / "samples").glob("*.prom")} == set(SAMPLES)


@pytest.mark.parametrize("name", CASES)
def test_case(name, series):
    wanted = EXPECTED[name]
    body = (HERE / "cases" / name).read_bytes()
    found = read_with(body, detect(body), tuple(wanted["pod"]) if "pod" in wanted else None)
    values = series(Blocks().block(found.rows))
    by_signal = {}
    for key, value in values.items():
        by_signal.setdefault(key.partition("{")[0], []).append(value)
    for signal in wanted.get("absent", ()):
        assert signal not in by_signal
    for signal in wanted.get("present", ()):
        assert signal in by_signal
    for signal, count in wanted.get("count", {}).items():
        assert len(by_signal[signal]) == count
    for signal, value in wanted.get("value", {}).items():
        assert by_signal[signal] == [value]
    if "same_as" in wanted:
        other = (HERE / "cases" / wanted["same_as"]).read_bytes()
        assert values == series(read(other))
    for _ in wanted.get("notes", ()):
        assert [note for note in found.notes if note.reason == "parse"]


@pytest.mark.parametrize(("name", "source"), SAMPLES.items())
def test_whose_page_it_is(name, source):
    assert detect(sample(name)).source == source


@pytest.mark.parametrize(
    "page",
    [
        b"vllm:num_requests_running 1\n",
        b"# TYPE gpu_cache_usage_perc gauge\ngpu_cache_usage_perc 0.5\n",
        b"node_cpu_seconds_total 1\n",
        b"",
    ],
)
def test_a_page_of_no_gpu(page, series):
    assert detect(page) is None
    assert series(read(page)) == {}


def test_a_page_that_is_none():
    with pytest.raises(PageError):
        read_with(b"<html>no</html>\n", BY_SOURCE["dcgm"])


def test_the_real_page_of_an_l4(series):
    found = series(read(sample("dcgm_exporter_l4_580")))
    gpu = 'gpu_uuid="GPU-c2f76b33-7953-256e-8f33-1343419b1a1c"'
    assert found[f"gpu_power_watts{{{gpu}}}"] == 16.365
    assert found[f"gpu_energy_joules_total{{{gpu}}}"] == 4742.776
    assert found[f"gpu_memory_total_bytes{{{gpu}}}"] == (22563 + 0 + 470) * 2**20
    assert found[f'gpu_clock_hertz{{clock="memory",{gpu}}}'] == 405e6
    assert not [key for key in found if 'sensor="memory"' in key]  # 0 is no sensor
    info = next(key for key in found if key.startswith("gpu_info"))
    assert 'driver_version="580.105.08"' in info and 'pci_bus_id="0000:31:00.0"' in info


def test_amd(series):
    found = series(read(sample("amd_device_metrics_exporter_mi300x_shape")))
    assert found['gpu_power_watts{gpu_uuid="SN-0"}'] == 748
    assert found['gpu_energy_joules_total{gpu_uuid="SN-0"}'] == 1.4e11
    assert found['gpu_temperature_celsius{gpu_uuid="SN-0",sensor="gpu"}'] == 76
    assert found['gpu_clock_hertz{clock="sm",gpu_uuid="SN-0"}'] == 1533e6
    assert found['gpu_memory_used_bytes{gpu_uuid="SN-0"}'] == 183265 * 2**20
    assert found['gpu_up{gpu_uuid="SN-1"}'] == 1
    page = read_with(sample("amd_device_metrics_exporter_mi300x_shape"), BY_SOURCE["amd"])
    assert page.devices == 2
    assert {(claim.device, claim.owner.pod) for claim in page.claims} == {("SN-0", "llm-0")}


def test_amd_clocks_and_links_are_added_up_by_their_kind(series):
    found = series(read(sample("amd_device_metrics_exporter_docs")))
    links = re.findall(
        rb"^gpu_xgmi_link_tx\{.*\} (\S+)", sample("amd_device_metrics_exporter_docs"), re.MULTILINE
    )
    assert found['gpu_nvlink_transmit_bytes_total{gpu_uuid="xxxx"}'] == sum(map(float, links)) * 1024


def test_amd_counters_may_equal_a_blank_of_dcgm(series):
    """The sentinels are DCGM's: microjoules that happen to be one of them are a value."""
    page = b'gpu_package_power{gpu_id="0",serial_number="S"} 300\n'
    page += b'gpu_energy_consumed{gpu_id="0",serial_number="S"} 140737488355328\n'
    assert series(read(page))['gpu_energy_joules_total{gpu_uuid="S"}'] == 140737488.355328


def test_intel(series):
    found = series(read(sample("intel_xpumd_shape")))
    assert found['gpu_utilization_ratio{gpu_uuid="xpu-0"}'] == 0.125
    assert found['gpu_power_watts{gpu_uuid="xpu-0"}'] == 131.5
    assert found['gpu_memory_used_bytes{gpu_uuid="xpu-0"}'] == 8589934592
    assert found['gpu_temperature_celsius{gpu_uuid="xpu-0",sensor="gpu"}'] == 36
    assert found['gpu_clock_hertz{clock="sm",gpu_uuid="xpu-0"}'] == 960e6
    assert found['gpu_pcie_transmit_bytes_total{gpu_uuid="xpu-0"}'] == 2000
    info = next(key for key in found if key.startswith("gpu_info") and "xpu-0" in key)
    assert 'name="Intel(R) Arc(TM) Pro B60 Graphics"' in info
    assert 'pci_bus_id="0000:03:00.0"' in info and 'vendor="intel"' in info


def test_triton_keeps_0_for_what_it_cannot_read(series):
    found = series(read(sample("triton_gpu_values_zero")))
    assert not [key for key in found if "power" in key]
    assert (
        series(read(sample("triton_t4_gpu")))[
            'gpu_power_watts{gpu_uuid="GPU-951eeeeb-d284-d263-688e-d98a5306389b"}'
        ]
        == 32.09
    )


def test_a_nim_that_says_watts_and_means_milliwatts(series):
    found = series(read(sample("nim_embedding_gpu")))
    assert found['gpu_power_watts{gpu_uuid="0"}'] == 71.234
    assert found['gpu_power_watts{gpu_uuid="1"}'] == 9.0  # plausible in either unit: the limit decides
    assert found['gpu_power_limit_watts{gpu_uuid="0"}'] == 350
    honest = sample("nim_embedding_gpu").replace(b"71234.0", b"71.2").replace(b"350000.0", b"350.0")
    assert series(read(honest))['gpu_power_watts{gpu_uuid="0"}'] == 71.2
    alone = re.sub(rb"gpu_power_limit_watts.*\n", b"", sample("nim_embedding_gpu"))
    assert not [key for key in series(read(alone)) if "power" in key]


@pytest.mark.parametrize("blank", sorted(BY_SOURCE["dcgm"].blanks))
def test_each_blank_of_dcgm(blank, series):
    page = dcgm(f"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL{{}} {blank:.0f}", "DCGM_FI_DEV_SM_CLOCK{} 1000")
    found = series(read(page))
    assert not [key for key in found if "ecc" in key]
    assert [value for key, value in found.items() if "clock" in key] == [1e9]


@pytest.mark.parametrize(
    ("help_text", "value", "ratio"),
    [
        ("", "87", 0.87),
        ("", "0.5", 0.005),
        ("GPU utilization (in %).", "0.5", 0.005),
        ("Ratio of time a kernel ran.", "0.5", 0.5),
        ("GPU utilization, 0.0 to 1.0", "0.5", 0.5),
        ("GPU utilization, 0 to 100", "50", 0.5),
    ],
)
def test_a_name_that_says_ratio_may_be_a_percentage(help_text, value, ratio, series):
    name = "DCGM_FI_DEV_GPU_UTIL_RATIO"
    page = dcgm(*([f"# HELP {name} {help_text}"] if help_text else []), f"{name}{{}} {value}")
    assert series(read(page))['gpu_utilization_ratio{gpu_uuid="GPU-1"}'] == ratio


def test_the_same_name_as_a_total_in_an_old_csv_is_not_a_rate(series):
    rows = ("# TYPE DCGM_FI_PROF_PCIE_TX_BYTES counter", "DCGM_FI_PROF_PCIE_TX_BYTES{} 5")
    assert not [key for key in series(read(dcgm(*rows))) if "pcie" in key]
    assert [key for key in series(read(dcgm(rows[1]))) if "bytes_per_second" in key]


def test_clock_reasons_and_recovery_action_are_decoded(series):
    page = dcgm("DCGM_FI_DEV_CLOCKS_EVENT_REASONS{} 36", "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION{} 2")
    found = series(read(page))
    limited = {key for key, value in found.items() if key.startswith("gpu_clock_limited{") and value}
    assert {re.search('reason="(.*?)"', key)[1] for key in limited} == {"power_cap", "sw_thermal"}
    assert found['gpu_recovery_action{action="node_reboot",gpu_uuid="GPU-1"}'] == 1
    assert sum(value for key, value in found.items() if "recovery" in key) == 1


def test_unmapped_families_are_named():
    notes = read_with(sample("dcgm_exporter_l4_580"), BY_SOURCE["dcgm"]).notes
    assert [note.detail for note in notes if note.reason == "unmapped"] == ["DCGM_FI_DEV_VGPU_LICENSE_STATUS"]


def test_an_xid_of_0_is_no_xid_and_its_text_is_no_label(series):
    assert not [key for key in series(read(dcgm("DCGM_FI_DEV_XID_ERRORS{} 0"))) if "xid" in key]
    page = dcgm('DCGM_FI_DEV_XID_ERRORS{err_msg="fallen off the bus"} 79')
    assert series(read(page))['gpu_xid_last{gpu_uuid="GPU-1"}'] == 79


def test_tables_name_only_signals_and_labels_of_the_schema():
    for table in TABLES:
        for one in table.columns:
            assert {name for name, _ in one.labels} <= set(SIGNALS[one.signal].labels)


def test_a_renamed_field_gives_the_same_series(series):
    """Both generations of names, for every column that has two."""
    for one in BY_SOURCE["dcgm"].columns:
        if len(one.natives) == 2:
            old, new = (series(read(dcgm(f"{native}{{}} 1"))) for native in one.natives)
            assert old == new and [key for key in old if key.startswith(one.signal)], one.signal


def test_a_page_read_by_map_shows_every_pod(series):
    found = series(pages.read((HERE / "cases" / "p06_other_pods.prom").read_bytes()))
    assert len([key for key in found if key.startswith("gpu_memory_used_bytes")]) == 2


_NATIVES = [(table, native) for table in TABLES for one in table.columns for native in one.natives]


@given(
    st.sampled_from(_NATIVES),
    st.one_of(st.floats(), st.sampled_from(["+Inf", "-Inf", "NaN", "1e400", "-0", "9223372036854775794"])),
)
def test_no_value_of_any_column_raises_or_leaks_what_is_no_number(native, value):
    table, name = native
    labels = dict.fromkeys((*table.uuid, *table.instance, "hw_sensor_location", "clock_type"), "x")
    text = ",".join(f'{label}="{text}"' for label, text in labels.items())
    found = read_with(f"{name}{{{text}}} {value}\n".encode(), table)
    assert all(isfinite(number) for _, _, number in found.rows)
