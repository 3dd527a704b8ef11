"""Signals of GPUs. The join with a target is `gpu_allocation_info`.

Labels: `gpu_uuid`; `gpu_instance` besides on what is measured on a MIG instance (a leaf). A GPU that is not
sliced has no `gpu_instance`. No GPU signal carries `target`: one GPU may serve several.
"""

from __future__ import annotations

from sidecar.schema.model import Agg, Signal, counter, gauge

GPU_LABEL = ("gpu_uuid",)
LEAF = ("gpu_uuid", "gpu_instance")
SUM = Agg.SUM
S, B, W, J, C, HZ, RATIO = "seconds", "bytes", "watts", "joules", "celsius", "hertz", "ratio"

_IDENTITY: tuple[Signal, ...] = (
    gauge(
        "gpu_info",
        "What the GPU is. memory_kind: dedicated, unified or unknown. serial and compute_mode are opt-in.",
        labels=(
            *GPU_LABEL,
            "index",
            "name",
            "vendor",
            "pci_bus_id",
            "serial",
            "driver_version",
            "cuda_driver_version",
            "architecture",
            "memory_kind",
            "compute_mode",
        ),
    ),
    gauge(
        "gpu_mig_info",
        "Compute instances of a GPU that is sliced with MIG.",
        labels=(*LEAF, "compute_instance", "mig_uuid", "profile"),
    ),
    gauge(
        "gpu_allocation_info",
        "Who uses the GPU, for joins. Absent while unknown; several where the GPU is shared.",
        labels=(*LEAF, "target", "pod", "namespace", "container"),
    ),
)

_COLLECTION: tuple[Signal, ...] = (
    gauge(
        "gpu_up", "0 when the GPU is lost or needs a reset; its other series vanish then.", labels=GPU_LABEL
    ),
    gauge("gpu_devices", "GPUs that the source counts, those included that may not be opened."),
    gauge("gpu_collect_success", "1 when the last collection succeeded.", labels=("source",)),
    gauge("gpu_collect_timestamp_seconds", "When a collection last succeeded.", unit=S, labels=("source",)),
    gauge("gpu_collect_duration_seconds", "How long the last collection took.", unit=S, labels=("source",)),
    counter(
        "gpu_collect_errors_total",
        "Readings and collections that failed or were refused as implausible, by reason.",
        labels=("source", "reason"),
        agg=SUM,
    ),
)

_ACTIVITY: tuple[Signal, ...] = (
    gauge(
        "gpu_utilization_ratio",
        "Share of the last 1/6 to 1 s in which any kernel ran: 1 says little about load.",
        unit=RATIO,
        labels=GPU_LABEL,
    ),
    gauge(
        "gpu_memory_controller_busy_ratio",
        "Share of the last 1/6 to 1 s in which memory was read or written; not the share of memory in use.",
        unit=RATIO,
        labels=GPU_LABEL,
    ),
    gauge(
        "gpu_graphics_engine_active_ratio",
        "Share of time in which a compute or graphics engine was active; works under MIG.",
        unit=RATIO,
        labels=LEAF,
    ),
    gauge(
        "gpu_sm_active_ratio",
        "Share of SM cycles with at least one warp: the best single figure for how busy a GPU is.",
        unit=RATIO,
        labels=LEAF,
    ),
    gauge("gpu_sm_occupancy_ratio", "Resident warps over the most that fit.", unit=RATIO, labels=LEAF),
    gauge(
        "gpu_tensor_active_ratio",
        "Share of cycles in which a tensor pipe was active: high in prefill.",
        unit=RATIO,
        labels=LEAF,
    ),
    gauge(
        "gpu_dram_active_ratio",
        "Share of the memory bandwidth in use: high in decode.",
        unit=RATIO,
        labels=LEAF,
    ),
    gauge(
        "gpu_pipe_active_ratio",
        "Share of cycles in which a pipe was active. Opt-in.",
        unit=RATIO,
        labels=(*LEAF, "pipe"),
    ),
    gauge("gpu_encoder_utilization_ratio", "Video encoder busy. Opt-in.", unit=RATIO, labels=GPU_LABEL),
    gauge("gpu_decoder_utilization_ratio", "Video decoder busy. Opt-in.", unit=RATIO, labels=GPU_LABEL),
)

_MEMORY: tuple[Signal, ...] = (
    gauge("gpu_memory_total_bytes", "Memory of the GPU; absent where it is the host's.", unit=B, labels=LEAF),
    gauge(
        "gpu_memory_used_bytes",
        "Memory in use. Flat when an engine allocates in advance: its KV cache usage tells the pressure.",
        unit=B,
        labels=LEAF,
    ),
    gauge("gpu_memory_free_bytes", "Memory free.", unit=B, labels=LEAF),
    gauge(
        "gpu_memory_reserved_bytes",
        "Memory that the driver keeps; where it is absent, used includes it.",
        unit=B,
        labels=LEAF,
    ),
    gauge("gpu_bar1_used_bytes", "BAR1 mapping in use. Opt-in.", unit=B, labels=GPU_LABEL),
)

_BOARD: tuple[Signal, ...] = (
    gauge("gpu_power_watts", "Power of the board; means come from the energy.", unit=W, labels=GPU_LABEL),
    gauge("gpu_power_limit_watts", "The limit in force.", unit=W, labels=GPU_LABEL),
    counter(
        "gpu_energy_joules_total",
        "Energy of the board since its driver was loaded; its rate is the true mean power.",
        unit=J,
        labels=GPU_LABEL,
        agg=SUM,
    ),
    gauge("gpu_temperature_celsius", "Temperature.", unit=C, labels=(*GPU_LABEL, "sensor")),
    gauge(
        "gpu_temperature_margin_celsius",
        "Degrees left before the clocks are slowed.",
        unit=C,
        labels=GPU_LABEL,
    ),
    gauge(
        "gpu_temperature_threshold_celsius",
        "Temperatures at which the board acts. Opt-in.",
        unit=C,
        labels=(*GPU_LABEL, "threshold"),
    ),
    gauge("gpu_clock_hertz", "Clock now.", unit=HZ, labels=(*GPU_LABEL, "clock")),
    gauge("gpu_clock_max_hertz", "The highest clock.", unit=HZ, labels=(*GPU_LABEL, "clock")),
    gauge(
        "gpu_clock_limited",
        "1 while this reason holds the clocks down; idle is not a fault.",
        labels=(*GPU_LABEL, "reason"),
    ),
    counter(
        "gpu_clock_limited_seconds_total",
        "Time in which this reason held the clocks down.",
        unit=S,
        labels=(*GPU_LABEL, "reason"),
        agg=SUM,
    ),
    gauge("gpu_performance_state", "P-state, 0 is the fastest. Opt-in.", labels=GPU_LABEL),
)

_LINKS: tuple[Signal, ...] = (
    counter("gpu_pcie_transmit_bytes_total", "Bytes sent over PCIe.", unit=B, labels=GPU_LABEL, agg=SUM),
    counter("gpu_pcie_receive_bytes_total", "Bytes received over PCIe.", unit=B, labels=GPU_LABEL, agg=SUM),
    gauge("gpu_pcie_transmit_bytes_per_second", "Rate out over PCIe.", unit=B, labels=GPU_LABEL),
    gauge("gpu_pcie_receive_bytes_per_second", "Rate in over PCIe.", unit=B, labels=GPU_LABEL),
    counter("gpu_pcie_replays_total", "PCIe retries.", labels=GPU_LABEL, agg=SUM),
    gauge("gpu_pcie_link_width", "PCIe lanes: current must equal max.", labels=(*GPU_LABEL, "state")),
    gauge(
        "gpu_pcie_link_generation",
        "PCIe generation; it falls when idle, so compare under load.",
        labels=(*GPU_LABEL, "state"),
    ),
    counter("gpu_nvlink_transmit_bytes_total", "Bytes sent over NVLink.", unit=B, labels=GPU_LABEL, agg=SUM),
    counter(
        "gpu_nvlink_receive_bytes_total", "Bytes received over NVLink.", unit=B, labels=GPU_LABEL, agg=SUM
    ),
    counter("gpu_nvlink_errors_total", "NVLink errors of all links.", labels=(*GPU_LABEL, "error"), agg=SUM),
    gauge(
        "gpu_nvlink_links",
        "NVLinks by state; a lost one slows tensor parallelism silently.",
        labels=(*GPU_LABEL, "state"),
    ),
    gauge("gpu_fabric_state", "NVSwitch fabric, 1. Opt-in.", labels=(*GPU_LABEL, "state", "status")),
)

_HEALTH: tuple[Signal, ...] = (
    counter(
        "gpu_ecc_errors_total",
        "ECC errors since the driver was loaded.",
        labels=(*GPU_LABEL, "severity"),
        agg=SUM,
    ),
    gauge("gpu_ecc_lifetime_errors", "ECC errors of its life. Opt-in.", labels=(*GPU_LABEL, "severity")),
    gauge("gpu_remapped_rows", "Memory rows that were remapped.", labels=(*GPU_LABEL, "cause")),
    gauge("gpu_row_remap_pending", "1 when a remap waits for a reset at the next drain.", labels=GPU_LABEL),
    gauge("gpu_row_remap_failed", "1 when a remap failed: replace the board.", labels=GPU_LABEL),
    gauge("gpu_retired_pages", "Memory pages retired (before Ampere).", labels=(*GPU_LABEL, "cause")),
    counter(
        "gpu_xid_errors_total",
        "Xid events since the sidecar started; codes without a value of their own are other.",
        labels=(*GPU_LABEL, "xid"),
        agg=SUM,
    ),
    gauge("gpu_xid_last", "Code of the last Xid event.", labels=GPU_LABEL),
    gauge("gpu_xid_last_timestamp_seconds", "When the last Xid event came.", unit=S, labels=GPU_LABEL),
    gauge(
        "gpu_recovery_action",
        "1 for the action that the driver asks for.",
        labels=(*GPU_LABEL, "action"),
    ),
    gauge("gpu_mig_mode", "1 when MIG is on.", labels=(*GPU_LABEL, "state")),
)

_PROCESSES: tuple[Signal, ...] = (
    gauge("gpu_processes", "Compute processes on the GPU.", labels=LEAF),
    gauge(
        "gpu_process_memory_bytes",
        "Memory of the 20 largest processes, by host pid. Opt-in.",
        unit=B,
        labels=(*LEAF, "pid", "target"),
    ),
)

GPU: tuple[Signal, ...] = (
    *_IDENTITY,
    *_COLLECTION,
    *_ACTIVITY,
    *_MEMORY,
    *_BOARD,
    *_LINKS,
    *_HEALTH,
    *_PROCESSES,
)
