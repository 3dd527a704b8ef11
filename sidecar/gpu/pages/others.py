"""AMD's device-metrics-exporter, Intel's xpumd, and what Triton and NIM tell of GPUs themselves."""

from __future__ import annotations

from sidecar.gpu.pages.table import MIB, Table, column

_SYSTEM = ("system", "GPU_CLOCK_TYPE_SYSTEM")
_MEMORY = ("memory", "GPU_CLOCK_TYPE_MEMORY")
_TILE = {"com_intel_subdevice_id": ("",)}  # what only tiles tell isn't added up

#: Partitions of a board: the secondary ones repeat the board's values as 0. pcie_bandwidth isn't mapped: both
#: ways are in one.
AMD = Table(
    source="amd",
    vendor="amd",
    columns=(
        column("gpu_up", "gpu_health"),
        column("gpu_utilization_ratio", "gpu_gfx_activity", factor=0.01),
        column("gpu_memory_controller_busy_ratio", "gpu_umc_activity", factor=0.01),
        column("gpu_memory_total_bytes", "gpu_total_vram", factor=MIB, leaf=True, zero=False),
        column("gpu_memory_used_bytes", "gpu_used_vram", factor=MIB, leaf=True),
        column("gpu_memory_free_bytes", "gpu_free_vram", factor=MIB, leaf=True),
        column(
            "gpu_power_watts",
            "gpu_package_power",
            "gpu_average_package_power",
            "gpu_power_usage",
            zero=False,
        ),
        column("gpu_energy_joules_total", "gpu_energy_consumed", factor=1e-6, zero=False),
        column(
            "gpu_temperature_celsius",
            "gpu_junction_temperature",
            "gpu_edge_temperature",
            sensor_="gpu",
            zero=False,
        ),
        column("gpu_temperature_celsius", "gpu_memory_temperature", sensor_="memory", zero=False),
        column(
            "gpu_clock_hertz",
            "gpu_clock",
            factor=1e6,
            clock_="sm",
            where={"clock_type": _SYSTEM},
            reduce="max",
        ),
        column(
            "gpu_clock_hertz",
            "gpu_clock",
            factor=1e6,
            clock_="memory",
            where={"clock_type": _MEMORY},
            reduce="max",
        ),
        column("gpu_pcie_replays_total", "pcie_replay_count"),
        column("gpu_nvlink_transmit_bytes_total", "gpu_xgmi_link_tx", factor=1024, reduce="sum"),
        column("gpu_nvlink_receive_bytes_total", "gpu_xgmi_link_rx", factor=1024, reduce="sum"),
        column("gpu_ecc_errors_total", "gpu_ecc_correct_total", severity_="corrected"),
        column("gpu_ecc_errors_total", "gpu_ecc_uncorrect_total", severity_="uncorrected"),
    ),
    uuid=("gpu_uuid", "serial_number", "gpu_id"),
    index=("gpu_id",),
    name=("card_model",),
    serial=("serial_number",),
    instance=("gpu_partition_id",),
    whole={"gpu_compute_partition_type": ("spx", "")},
    profile=("gpu_compute_partition_type",),
    devices="gpu_nodes_total",
    ours=("gpu_", "pcie_"),
    detect=("gpu_package_power", "gpu_gfx_activity", "gpu_used_vram", "gpu_nodes_total", "gpu_xgmi_link_tx"),
)

INTEL = Table(
    source="intel",
    vendor="intel",
    columns=(
        column(
            "gpu_utilization_ratio", "hw_gpu_utilization_ratio", where={"hw_gpu_task": ("all", "general", "")}
        ),
        column(
            "gpu_memory_total_bytes",
            "hw_memory_size_bytes",
            where={"hw_memory_location": ("device", ""), **_TILE},
        ),
        column(
            "gpu_memory_used_bytes",
            "hw_memory_usage_bytes",
            where={"hw_memory_location": ("device", ""), **_TILE},
        ),
        column("gpu_power_watts", "hw_power_watts", where={"hw_sensor_location": ("card", ""), **_TILE}),
        column(
            "gpu_energy_joules_total",
            "hw_energy_joules_total",
            where={"hw_sensor_location": ("card", ""), **_TILE},
        ),
        *(
            column(
                "gpu_temperature_celsius",
                "hw_temperature_celsius",
                sensor_=sensor,
                where={"hw_sensor_location": (sensor,)},
                reduce="max",
            )
            for sensor in ("gpu", "memory")
        ),
        *(
            column(
                "gpu_clock_hertz",
                "hw_frequency_hertz",
                clock_=clock,
                where={"hw_frequency_domain": (domain,), "aggregation": ("avg", "")},
            )
            for clock, domain in (("sm", "gpu"), ("memory", "memory"))
        ),
        *(
            column(
                f"gpu_pcie_{way}_bytes_total",
                "hw_gpu_io_bytes_total",
                where={"network_io_direction": (way,)},
            )
            for way in ("transmit", "receive")
        ),
    ),
    uuid=("hw_id", "pci_bdf"),
    name=("hw_model", "hw_name"),
    pci=("pci_bdf",),
    info="hw_gpu_info",
    ours=("hw_gpu_",),
    detect=("hw_gpu_info", "hw_gpu_utilization_ratio"),
)

#: Triton polls DCGM itself and keeps 0 for what failed; its energy starts with Triton. Below NVML.
TRITON = Table(
    source="triton",
    vendor="nvidia",
    columns=(
        column("gpu_utilization_ratio", "nv_gpu_utilization"),
        column("gpu_memory_total_bytes", "nv_gpu_memory_total_bytes", zero=False),
        column("gpu_memory_used_bytes", "nv_gpu_memory_used_bytes"),
        column("gpu_power_watts", "nv_gpu_power_usage", zero=False),
        column("gpu_power_limit_watts", "nv_gpu_power_limit", zero=False),
        column("gpu_energy_joules_total", "nv_energy_consumption", zero=False),
    ),
    uuid=("gpu_uuid",),
    ours=("nv_gpu_",),
    detect=("nv_gpu_", "nv_energy_consumption"),
)

#: Some NIMs tell power in W, some in mW under the same name: `watts` decides by the limit beside it.
NIM = Table(
    source="nim",
    vendor="nvidia",
    columns=(
        column("gpu_utilization_ratio", "gpu_utilization"),
        column("gpu_memory_total_bytes", "gpu_memory_total_bytes", zero=False),
        column("gpu_memory_used_bytes", "gpu_memory_used_bytes"),
        column("gpu_power_watts", "gpu_power_usage_watts", zero=False, decode="watts"),
        column("gpu_power_limit_watts", "gpu_power_limit_watts", zero=False, decode="watts"),
        column("gpu_energy_joules_total", "gpu_total_energy_consumption_joules", zero=False),
    ),
    uuid=("gpu_uuid", "device_id"),
    index=("device_id",),
    detect=("gpu_total_energy_consumption_joules", "gpu_power_usage_watts"),
)
