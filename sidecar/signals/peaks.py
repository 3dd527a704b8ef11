"""Peaks: what a scrape every 15 or 30 s would miss."""

from __future__ import annotations

from math import nan

from sidecar.history import Table
from sidecar.signals.formula import Formula, Way

#: Peak signal → the gauge that it is the maximum of.
GAUGES = {
    "requests_waiting_peak": "requests_waiting",
    "requests_running_peak": "requests_running",
    "kv_cache_usage_peak_ratio": "kv_cache_usage_max_ratio",
}
PEAKS = tuple(Formula(peak, (Way((gauge,), f"highest {gauge}"),)) for peak, gauge in GAUGES.items())


def peak(table: Table, column: int, since: int) -> float:
    """The highest value of the polls from a row on; NaN where none told it."""
    values = table.columns[column][since:]
    highest = max(values, default=nan)
    if highest == highest and values[0] == values[0]:
        return highest
    return max([value for value in values if value == value], default=nan)
