"""NVML's numbers and what they mean: return codes, clock reasons, Xid codes, architectures."""

from __future__ import annotations

#: Return code → (reason, words for a person). What isn't here is unknown.
CODES: dict[int, tuple[str, str]] = {
    -2: ("unknown", "the binding failed"),
    -1: ("unknown", "text that can't be decoded"),
    1: ("lifecycle", "NVML is not initialised"),
    2: ("not_supported", "invalid argument"),
    3: ("not_supported", "not supported"),
    4: ("permission", "no permission"),
    6: ("not_supported", "not found"),
    7: ("unknown", "the list grew while it was read"),
    9: ("driver", "the driver is not loaded"),
    10: ("timeout", "the driver timed out"),
    12: ("library", "libnvidia-ml.so.1 is not in this container"),
    13: ("not_supported", "the driver is too old to have it"),
    15: ("lifecycle", "the GPU is lost: it needs a reset, or the host a reboot"),
    16: ("lifecycle", "the GPU needs a reset"),
    18: ("mismatch", "the driver was upgraded under its library: restart the container"),
    19: ("unknown", "in use"),
    20: ("unknown", "out of memory"),
    25: ("not_supported", "another version of the argument"),
    27: ("not_supported", "not ready"),
    28: ("lifecycle", "the GPU is not found"),
    999: (
        "unknown",
        "unknown error; when all GPUs answer it, the container has lost its device nodes (systemd "
        "daemon-reload): restart the container",
    ),
}


def explain(code: int) -> tuple[str, str]:
    reason, words = CODES.get(code, ("unknown", "an error"))
    return reason, f"NVML {code}: {words}"


CLOCK_REASONS: dict[int, str] = {
    0x1: "idle",
    0x2: "applications_clocks",
    0x4: "power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "power_brake",
    0x100: "display",
}

#: Field values: nanoseconds in which a reason held the clocks down.
CLOCK_REASON_FIELDS = {
    "74": "power_cap",
    "76": "sync_boost",
    "269": "sw_thermal",
    "270": "hw_thermal",
    "271": "power_brake",
}

RECOVERY_ACTIONS = ("none", "gpu_reset", "node_reboot", "drain_p2p", "drain_and_reset", "recover_imex")

ARCHITECTURES = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}

#: Xid codes with a label value of their own; all others are `other`. The first row are faults of programs.
XIDS = frozenset(
    (
        *(13, 31, 43, 45, 68, 109),
        *(48, 61, 62, 63, 64, 74, 79, 92, 94, 95, 110, 119, 120, 121),
        *(136, 137, 140, 143, 144, 145, 149, 154, 155, 156, 158),
    )
)
#: Faults of a board that alerts name: their counters exist from the start, at 0.
XIDS_FROM_START = (48, 74, 79, 94, 95, 119)

GPM_SIGNALS = {
    "1": "gpu_graphics_engine_active_ratio",
    "2": "gpu_sm_active_ratio",
    "3": "gpu_sm_occupancy_ratio",
    "5": "gpu_tensor_active_ratio",
    "10": "gpu_dram_active_ratio",
}
GPM_PIPES = {"4": "int", "6": "dfma", "7": "hmma", "9": "imma", "11": "fp64", "12": "fp32", "13": "fp16"}
GPM_PCIE = {"20": "gpu_pcie_transmit_bytes_per_second", "21": "gpu_pcie_receive_bytes_per_second"}

NVLINK_ERRORS = {
    "161": "replay",
    "162": "recovery",
    "163": "crc",
    "208": "receive",
    "211": "integrity",
    "213": "recovery_successful",
    "214": "recovery_failed",
    "215": "recovery",
}

#: Parts of names of GPUs whose memory is the host's.
UNIFIED_MEMORY = ("GB10", "Orin", "Thor", "Xavier", "Tegra", "nvgpu")
#: Of these, the ones that answer a utilisation of 0 under load, with a success code.
FALSE_UTILIZATION = ("Orin", "Thor", "Xavier", "Tegra", "nvgpu")

#: Reading in the child → signal of the schema, for notes.
READINGS = {
    "utilization": "gpu_utilization_ratio",
    "memory": "gpu_memory_used_bytes",
    "power": "gpu_power_watts",
    "power_limit": "gpu_power_limit_watts",
    "energy": "gpu_energy_joules_total",
    "temperature": "gpu_temperature_celsius",
    "margin": "gpu_temperature_margin_celsius",
    "clock_sm": "gpu_clock_hertz",
    "clock_mem": "gpu_clock_hertz",
    "clock_max_sm": "gpu_clock_max_hertz",
    "clock_max_mem": "gpu_clock_max_hertz",
    "reasons": "gpu_clock_limited",
    "reasons_supported": "gpu_clock_limited",
    "processes_compute": "gpu_processes",
    "gpm": "gpu_sm_active_ratio",
    "mig_mode": "gpu_mig_mode",
    "pcie_gen": "gpu_pcie_link_generation",
    "pcie_width": "gpu_pcie_link_width",
    "pcie_gen_max": "gpu_pcie_link_generation",
    "pcie_width_max": "gpu_pcie_link_width",
    "nvlink.0": "gpu_nvlink_links",
    "encoder": "gpu_encoder_utilization_ratio",
    "decoder": "gpu_decoder_utilization_ratio",
    "bar1": "gpu_bar1_used_bytes",
    "pstate": "gpu_performance_state",
    "fabric": "gpu_fabric_state",
    "3": "gpu_ecc_errors_total",
    "4": "gpu_ecc_errors_total",
    "29": "gpu_retired_pages",
    "30": "gpu_retired_pages",
    "31": "gpu_retired_pages",
    **dict.fromkeys(CLOCK_REASON_FIELDS, "gpu_clock_limited_seconds_total"),
    "82": "gpu_temperature_celsius",
    "94": "gpu_pcie_replays_total",
    "138": "gpu_nvlink_transmit_bytes_total",
    "139": "gpu_nvlink_receive_bytes_total",
    "142": "gpu_remapped_rows",
    "143": "gpu_remapped_rows",
    "144": "gpu_row_remap_pending",
    "145": "gpu_row_remap_failed",
    "197": "gpu_pcie_transmit_bytes_total",
    "198": "gpu_pcie_receive_bytes_total",
    "230": "gpu_recovery_action",
}
