"""GPUs with the replica that owns them."""

from __future__ import annotations

from sidecar.outputs.dashboards import queries as q
from sidecar.outputs.dashboards.dashboard import GPU, NAMESPACE, Dashboard, Section, datasource
from sidecar.outputs.dashboards.panels import BAD, GOOD, Query, lines, rising, stat
from sidecar.outputs.dashboards.tables import Column, facts, table

_KEY = "gpu_uuid, target, pod"
_NAME = "{{target}} {{pod}} {{gpu_uuid}}"
_SPACE = 'namespace=~"$namespace"'


def _gpu(signal: str, more: str = "") -> str:
    return q.of(signal, more, q.GPU)


def _named(signal: str, more: str = "") -> str:
    return q.owned(_gpu(signal, more))


def _column(signal: str, more: str = "") -> str:
    return f"max by ({_KEY}) ({_named(signal, more)})"


_MEMORY = (
    f"max by ({_KEY}) ({q.owned(_gpu('gpu_memory_used_bytes') + ' / ' + _gpu('gpu_memory_total_bytes'))})"
)
_HELD = 'reason!="idle"'


def _grows(signal: str, by: str) -> str:
    return f"sum by ({by}) (rate({_gpu(signal)}[$__rate_interval]))"


NOW = Section(
    "Now",
    (
        stat(
            "GPUs",
            "none",
            "GPUs that the sidecars can see.",
            Query(f"sum (inference_gpu_devices{{{_SPACE}}})"),
        ),
        stat(
            "Lost",
            "none",
            "Known GPUs that the driver doesn't reach.",
            Query(f"count ({_gpu('gpu_up')} == 0) or count ({_gpu('gpu_up')}) * 0"),
            rising(1, 1),
        ),
        stat(
            "Clocks held down",
            "none",
            "GPUs slowed down by heat or a power brake; a power cap alone is normal.",
            Query(
                f"count (max by (gpu_uuid) ({_gpu('gpu_clock_limited', q.AMISS)}) == 1)"
                f" or count ({_gpu('gpu_up')}) * 0"
            ),
            rising(1, 1),
        ),
        stat(
            "Xid events",
            "none",
            "In the time shown. Codes below 100 of applications are among them: the table has the codes.",
            Query(f"sum (increase({_gpu('gpu_xid_errors_total')}[$__range]))", instant=True),
            rising(1, 5),
            decimals=0,
        ),
        stat("Power", "watt", "Draw of all boards.", Query(f"sum ({_gpu('gpu_power_watts')})")),
        stat(
            "Energy per token",
            "joule",
            "Energy of the GPUs over the tokens that the runtimes beside them generate.",
            Query(
                f"sum (rate({_gpu('gpu_energy_joules_total')}[$__rate_interval])) / (sum "
                f"(rate(inference_generation_tokens_total{{{_SPACE}}}[$__rate_interval])) > 0)"
            ),
            decimals=2,
        ),
        table(
            "GPUs",
            "One row a GPU and owner: the target, and in Kubernetes the pod, that it is allocated to.",
            {"gpu_uuid": "GPU", "target": "Target", "pod": "Pod"},
            (
                Column("Up", "none", _column("gpu_up"), words={"1": ("up", GOOD), "0": ("lost", BAD)}),
                Column("Busy", "percentunit", _column("gpu_utilization_ratio"), decimals=0),
                Column("SMs active", "percentunit", _column("gpu_sm_active_ratio"), decimals=0),
                Column("Memory", "percentunit", _MEMORY, rising(0.95, 0.99), decimals=0),
                Column("Power", "watt", _column("gpu_power_watts"), decimals=0),
                Column(
                    "Temperature",
                    "celsius",
                    _column("gpu_temperature_celsius", 'sensor="gpu"'),
                    rising(80, 88),
                    decimals=0,
                ),
                Column(
                    "Clock limits",
                    "none",
                    f"sum by ({_KEY}) ({_named('gpu_clock_limited', _HELD)})",
                    rising(1, 2),
                ),
            ),
        ),
    ),
)

WORK = Section(
    "Work",
    (
        lines(
            "Busy",
            "percentunit",
            "Share of the time in which a kernel ran: 100 % says that it never idled, not that it was full.",
            Query(_column("gpu_utilization_ratio"), _NAME),
            high=1,
        ),
        lines(
            "SMs active",
            "percentunit",
            "How much of the GPU worked: the best single figure (Hopper and later).",
            Query(_column("gpu_sm_active_ratio"), _NAME),
            high=1,
        ),
        lines(
            "Tensor cores and memory bandwidth",
            "percentunit",
            "Prefill drives the tensor cores, decode the memory.",
            Query(f"max by (gpu_uuid) ({_gpu('gpu_tensor_active_ratio')})", "{{gpu_uuid}} tensor"),
            Query(f"max by (gpu_uuid) ({_gpu('gpu_dram_active_ratio')})", "{{gpu_uuid}} DRAM"),
            high=1,
        ),
        lines(
            "Memory",
            "percentunit",
            "In use, of all there is. Engines reserve nearly all of it.",
            Query(_MEMORY, _NAME),
            high=1,
        ),
        lines(
            "PCIe",
            "Bps",
            "To and from the host.",
            Query(
                f"sum by (gpu_uuid) (rate({_gpu('gpu_pcie_transmit_bytes_total')}[$__rate_interval])) or "
                f"sum by (gpu_uuid) ({_gpu('gpu_pcie_transmit_bytes_per_second')})",
                "{{gpu_uuid}} out",
            ),
            Query(
                f"sum by (gpu_uuid) (rate({_gpu('gpu_pcie_receive_bytes_total')}[$__rate_interval])) or "
                f"sum by (gpu_uuid) ({_gpu('gpu_pcie_receive_bytes_per_second')})",
                "{{gpu_uuid}} in",
            ),
        ),
        lines(
            "NVLink",
            "Bps",
            "Between the GPUs of a replica: tensor parallelism lives on it.",
            Query(_grows("gpu_nvlink_transmit_bytes_total", "gpu_uuid"), "{{gpu_uuid}} out"),
            Query(_grows("gpu_nvlink_receive_bytes_total", "gpu_uuid"), "{{gpu_uuid}} in"),
        ),
    ),
)

POWER = Section(
    "Power, heat and clocks",
    (
        lines(
            "Power over limit",
            "percentunit",
            "Draw over the enforced limit.",
            Query(
                f"max by (gpu_uuid) ({_gpu('gpu_power_watts')} / {_gpu('gpu_power_limit_watts')})",
                "{{gpu_uuid}}",
            ),
            level=1,
        ),
        lines(
            "Temperature",
            "celsius",
            "GPU and memory, where they have sensors.",
            Query(
                f"max by (gpu_uuid, sensor) ({_gpu('gpu_temperature_celsius')})", "{{gpu_uuid}} {{sensor}}"
            ),
            low=None,
        ),
        lines(
            "Margin to slowdown",
            "celsius",
            "Degrees until the GPU slows itself down.",
            Query(f"min by (gpu_uuid) ({_gpu('gpu_temperature_margin_celsius')})", "{{gpu_uuid}}"),
        ),
        lines(
            "Clock over its maximum",
            "percentunit",
            "SM clock. Low while busy means that something holds it down.",
            Query(
                f"max by (gpu_uuid) ({_gpu('gpu_clock_hertz', q.SM)} / {_gpu('gpu_clock_max_hertz', q.SM)})",
                "{{gpu_uuid}}",
            ),
            high=1,
        ),
        lines(
            "Clocks held down, share of time",
            "percentunit",
            "By reason. A power cap is normal under load, heat and power brake are not.",
            Query(_grows("gpu_clock_limited_seconds_total", "gpu_uuid, reason"), "{{gpu_uuid}} {{reason}}"),
        ),
        lines(
            "Clock limits now",
            "none",
            "Reasons in force, idle left out.",
            Query(f"sum by (reason) ({_gpu('gpu_clock_limited', _HELD)})", "{{reason}}"),
            stack=True,
        ),
    ),
)

HEALTH = Section(
    "Health",
    (
        lines(
            "Xid events",
            "ops",
            "By code.",
            Query(_grows("gpu_xid_errors_total", "gpu_uuid, xid"), "{{gpu_uuid}} Xid {{xid}}"),
        ),
        lines(
            "ECC errors",
            "ops",
            "Corrected ones are normal now and then; uncorrected ones end work.",
            Query(_grows("gpu_ecc_errors_total", "gpu_uuid, severity"), "{{gpu_uuid}} {{severity}}"),
        ),
        lines(
            "Rows remapped",
            "none",
            "Memory rows replaced by spare ones, and whether one waits for a reset.",
            Query(f"sum by (gpu_uuid, cause) ({_gpu('gpu_remapped_rows')})", "{{gpu_uuid}} {{cause}}"),
            Query(f"max by (gpu_uuid) ({_gpu('gpu_row_remap_pending')})", "{{gpu_uuid}} pending"),
            Query(f"max by (gpu_uuid) ({_gpu('gpu_row_remap_failed')})", "{{gpu_uuid}} failed"),
        ),
        lines(
            "NVLink errors",
            "ops",
            "Replays, recoveries, CRC.",
            Query(_grows("gpu_nvlink_errors_total", "gpu_uuid, error"), "{{gpu_uuid}} {{error}}"),
        ),
        lines(
            "PCIe replays and links",
            "none",
            "Replays a second, and active NVLinks: a lost one halves a replica's speed silently.",
            Query(_grows("gpu_pcie_replays_total", "gpu_uuid"), "{{gpu_uuid}} replays/s"),
            Query(f"sum by (gpu_uuid, state) ({_gpu('gpu_nvlink_links')})", "{{gpu_uuid}} links {{state}}"),
        ),
        facts(
            "Boards",
            "What the boards are.",
            f"max by (gpu_uuid, index, name, architecture, driver_version, pci_bus_id) ({_gpu('gpu_info')})",
            {
                "index": "Index",
                "name": "Name",
                "gpu_uuid": "GPU",
                "architecture": "Architecture",
                "driver_version": "Driver",
                "pci_bus_id": "PCI",
            },
        ),
    ),
)

GPUS = Dashboard(
    "inference-gpu",
    "Inference / GPUs",
    "What the GPUs do and how they are, with the replica that each is allocated to.",
    (NOW, WORK, POWER, HEALTH),
    (datasource(), NAMESPACE, GPU),
)
