"""The sidecar's own metrics."""

from __future__ import annotations

from sidecar.schema.model import Signal, counter, gauge

ITSELF: tuple[Signal, ...] = (
    gauge("sidecar_build_info", "Version of the sidecar.", labels=("version", "python")),
    gauge("sidecar_config_loaded_timestamp_seconds", "When the config in force was loaded.", unit="seconds"),
    gauge("sidecar_config_reload_success", "1 when the last (re)load of the config succeeded."),
    counter(
        "sidecar_series_dropped_total",
        "Series that the sidecar refused, by reason.",
        labels=("target", "reason"),
    ),
    gauge("sidecar_loop_lag_seconds", "How late the event loop ran a timer, last second.", unit="seconds"),
    counter("sidecar_output_errors_total", "Errors of an output.", labels=("output",)),
    counter("sidecar_state_write_errors_total", "Times that the state file could not be written."),
    gauge("sidecar_state_saved_timestamp_seconds", "When the state file was last written.", unit="seconds"),
)
