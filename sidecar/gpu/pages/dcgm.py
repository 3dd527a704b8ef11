"""NVIDIA's dcgm-exporter: names before and since DCGM 4.6.

Not mapped on purpose: NVLink's combined bandwidth (both ways in one), the *_VIOLATION fields (their unit has
changed), DCGM_EXP_XID_ERRORS_COUNT (a moving window).
"""

from __future__ import annotations

from sidecar.gpu.pages.table import MIB, Column, Table, column

_PREFIX = "DCGM_FI_"


def _dcgm(signal: str, *natives: str, factor: float = 1.0, **more: object) -> Column:
    return column(signal, *(_PREFIX + name for name in natives), factor=factor, **more)


_PIPES = {
    "fp64": ("PROF_PIPE_FP64_ACTIVE", "PROF_FP64_UTIL_RATIO"),
    "fp32": ("PROF_PIPE_FP32_ACTIVE", "PROF_FP32_UTIL_RATIO"),
    "fp16": ("PROF_PIPE_FP16_ACTIVE", "PROF_FP16_UTIL_RATIO"),
    "int": ("PROF_PIPE_INT_ACTIVE", "PROF_INT_UTIL_RATIO"),
    "imma": ("PROF_PIPE_TENSOR_IMMA_ACTIVE", "PROF_TENSOR_IMMA_UTIL_RATIO"),
    "hmma": ("PROF_PIPE_TENSOR_HMMA_ACTIVE", "PROF_TENSOR_HMMA_UTIL_RATIO"),
    "dfma": ("PROF_PIPE_TENSOR_DFMA_ACTIVE", "PROF_TENSOR_DFMA_UTIL_RATIO"),
}
_LIMITED = {
    "power_cap": "SW_POWER_CAP",
    "sync_boost": "SYNC_BOOST",
    "sw_thermal": "SW_THERM_SLOWDOWN",
    "hw_thermal": "HW_THERM_SLOWDOWN",
    "power_brake": "HW_POWER_BRAKE_SLOWDOWN",
}
_THRESHOLDS = {
    "shutdown": ("DEV_SHUTDOWN_TEMP", "DEV_GPU_TEMP_SHUTDOWN_CELSIUS"),
    "slowdown": ("DEV_SLOWDOWN_TEMP", "DEV_GPU_TEMP_SLOWDOWN_CELSIUS"),
    "gpu_max": ("DEV_GPU_MAX_OP_TEMP", "DEV_GPU_MAX_OP_TEMP_CELSIUS"),
    "memory_max": ("DEV_MEM_MAX_OP_TEMP", "DEV_MEMORY_MAX_OP_TEMP_CELSIUS"),
}
_NVLINK_ERRORS = {
    "crc_flit": "CRC_FLIT_ERROR",
    "crc_data": "CRC_DATA_ERROR",
    "replay": "REPLAY_ERROR",
    "recovery": "RECOVERY_ERROR",
}

COLUMNS: tuple[Column, ...] = (
    _dcgm("gpu_utilization_ratio", "DEV_GPU_UTIL", factor=0.01),
    _dcgm("gpu_utilization_ratio", "DEV_GPU_UTIL_RATIO", decode="share"),
    _dcgm("gpu_memory_controller_busy_ratio", "DEV_MEM_COPY_UTIL", factor=0.01),
    _dcgm("gpu_encoder_utilization_ratio", "DEV_ENC_UTIL", factor=0.01),
    _dcgm("gpu_decoder_utilization_ratio", "DEV_DEC_UTIL", factor=0.01),
    _dcgm(
        "gpu_graphics_engine_active_ratio",
        "PROF_GR_ENGINE_ACTIVE",
        "PROF_GR_ENGINE_UTIL_RATIO",
        leaf=True,
    ),
    _dcgm("gpu_sm_active_ratio", "PROF_SM_ACTIVE", "PROF_SM_UTIL_RATIO", leaf=True),
    _dcgm("gpu_sm_occupancy_ratio", "PROF_SM_OCCUPANCY", "PROF_SM_OCCUPANCY_RATIO", leaf=True),
    _dcgm("gpu_tensor_active_ratio", "PROF_PIPE_TENSOR_ACTIVE", "PROF_TENSOR_UTIL_RATIO", leaf=True),
    _dcgm("gpu_dram_active_ratio", "PROF_DRAM_ACTIVE", "PROF_DRAM_UTIL_RATIO", leaf=True),
    *(_dcgm("gpu_pipe_active_ratio", *natives, leaf=True, pipe_=pipe) for pipe, natives in _PIPES.items()),
    _dcgm("gpu_memory_total_bytes", "DEV_FB_TOTAL", factor=MIB, leaf=True),
    _dcgm("gpu_memory_used_bytes", "DEV_FB_USED", factor=MIB, leaf=True),
    _dcgm("gpu_memory_free_bytes", "DEV_FB_FREE", factor=MIB, leaf=True),
    _dcgm("gpu_memory_reserved_bytes", "DEV_FB_RESERVED", factor=MIB, leaf=True),
    _dcgm("gpu_bar1_used_bytes", "DEV_BAR1_USED", factor=MIB),
    _dcgm("gpu_power_watts", "DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS"),
    _dcgm("gpu_power_limit_watts", "DEV_ENFORCED_POWER_LIMIT", "DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS"),
    _dcgm("gpu_energy_joules_total", "DEV_TOTAL_ENERGY_CONSUMPTION", factor=0.001),
    _dcgm("gpu_temperature_celsius", "DEV_GPU_TEMP", "DEV_GPU_TEMP_CELSIUS", sensor_="gpu"),
    _dcgm(
        "gpu_temperature_celsius",
        "DEV_MEMORY_TEMP",
        "DEV_MEMORY_TEMP_CELSIUS",
        sensor_="memory",
        zero=False,  # a board without that sensor
    ),
    _dcgm("gpu_temperature_margin_celsius", "DEV_GPU_TEMP_LIMIT", "DEV_GPU_TEMP_MARGIN_CELSIUS"),
    *(
        _dcgm("gpu_temperature_threshold_celsius", *natives, threshold_=threshold)
        for threshold, natives in _THRESHOLDS.items()
    ),
    _dcgm("gpu_clock_hertz", "DEV_SM_CLOCK", factor=1e6, clock_="sm"),
    _dcgm("gpu_clock_hertz", "DEV_MEM_CLOCK", factor=1e6, clock_="memory"),
    _dcgm("gpu_clock_max_hertz", "DEV_MAX_SM_CLOCK", factor=1e6, clock_="sm"),
    _dcgm("gpu_clock_max_hertz", "DEV_MAX_MEM_CLOCK", factor=1e6, clock_="memory"),
    _dcgm("gpu_clock_limited", "DEV_CLOCKS_EVENT_REASONS", "DEV_CLOCK_THROTTLE_REASONS", decode="reasons"),
    *(
        _dcgm(
            "gpu_clock_limited_seconds_total",
            f"DEV_CLOCKS_EVENT_REASON_{name}_NS",
            factor=1e-9,
            reason_=reason,
        )
        for reason, name in _LIMITED.items()
    ),
    _dcgm("gpu_performance_state", "DEV_PSTATE", "DEV_GPU_PSTATE"),
    _dcgm("gpu_pcie_transmit_bytes_total", "PROF_PCIE_TX_BYTES_TOTAL"),
    _dcgm("gpu_pcie_receive_bytes_total", "PROF_PCIE_RX_BYTES_TOTAL"),
    _dcgm("gpu_pcie_transmit_bytes_per_second", "PROF_PCIE_TX_BYTES", types=("gauge", "untyped")),
    _dcgm("gpu_pcie_receive_bytes_per_second", "PROF_PCIE_RX_BYTES", types=("gauge", "untyped")),
    _dcgm("gpu_pcie_replays_total", "DEV_PCIE_REPLAY_COUNTER", "DEV_PCIE_REPLAY_TOTAL"),
    _dcgm("gpu_pcie_link_width", "DEV_PCIE_LINK_WIDTH", state_="current"),
    _dcgm("gpu_pcie_link_width", "DEV_PCIE_MAX_LINK_WIDTH", state_="max"),
    _dcgm("gpu_pcie_link_generation", "DEV_PCIE_LINK_GEN", state_="current"),
    _dcgm("gpu_pcie_link_generation", "DEV_PCIE_MAX_LINK_GEN", state_="max"),
    _dcgm("gpu_nvlink_transmit_bytes_total", "DEV_NVLINK_TX_BYTES_TOTAL"),
    _dcgm("gpu_nvlink_receive_bytes_total", "DEV_NVLINK_RX_BYTES_TOTAL"),
    *(
        _dcgm(
            "gpu_nvlink_errors_total",
            f"DEV_NVLINK_{name}_COUNT_TOTAL",
            f"DEV_NVLINK_{name}_TOTAL",
            error_=error,
        )
        for error, name in _NVLINK_ERRORS.items()
    ),
    _dcgm("gpu_ecc_errors_total", "DEV_ECC_SBE_VOL_TOTAL", severity_="corrected"),
    _dcgm("gpu_ecc_errors_total", "DEV_ECC_DBE_VOL_TOTAL", severity_="uncorrected"),
    _dcgm("gpu_ecc_lifetime_errors", "DEV_ECC_SBE_AGG_TOTAL", severity_="corrected"),
    _dcgm("gpu_ecc_lifetime_errors", "DEV_ECC_DBE_AGG_TOTAL", severity_="uncorrected"),
    _dcgm(
        "gpu_remapped_rows",
        "DEV_CORRECTABLE_REMAPPED_ROWS",
        "DEV_ROW_REMAP_CORRECTABLE_TOTAL",
        cause_="correctable",
    ),
    _dcgm(
        "gpu_remapped_rows",
        "DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "DEV_ROW_REMAP_UNCORRECTABLE_TOTAL",
        cause_="uncorrectable",
    ),
    _dcgm("gpu_row_remap_pending", "DEV_ROW_REMAP_PENDING"),
    _dcgm("gpu_row_remap_failed", "DEV_ROW_REMAP_FAILURE", "DEV_ROW_REMAP_FAILED"),
    _dcgm("gpu_retired_pages", "DEV_RETIRED_SBE", "DEV_PAGE_RETIRED_SBE_TOTAL", cause_="single_bit"),
    _dcgm("gpu_retired_pages", "DEV_RETIRED_DBE", "DEV_PAGE_RETIRED_DBE_TOTAL", cause_="double_bit"),
    _dcgm("gpu_retired_pages", "DEV_RETIRED_PENDING", "DEV_PAGE_RETIRED_PENDING", cause_="pending"),
    _dcgm("gpu_xid_last", "DEV_XID_ERRORS", "DEV_XID_ERROR", zero=False),  # the last code; never a count
    _dcgm("gpu_recovery_action", "DEV_GET_GPU_RECOVERY_ACTION", "DEV_GPU_RECOVERY_ACTION", decode="action"),
)

#: What DCGM says instead of a value: blank, not found, not supported, no permission; as int32, int64, double.
BLANKS = frozenset(
    float(start + kind) for start in (0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0, 140737488355328) for kind in range(4)
)

DCGM = Table(
    source="dcgm",
    vendor="nvidia",
    columns=COLUMNS,
    uuid=("UUID", "uuid"),
    index=("gpu",),
    name=("modelName",),
    driver=("DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION"),
    pci=("pci_bus_id",),
    instance=("GPU_I_ID",),
    profile=("GPU_I_PROFILE",),
    blanks=BLANKS,
    ours=("DCGM_",),
    detect=("DCGM_FI_",),
    memory_total=True,
)
