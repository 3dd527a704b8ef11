"""Peaks: what a scrape every 15 or 30 s would miss."""

from __future__ import annotations

from sidecar.history import History
from sidecar.snapshot import EMPTY_LAYOUT, Block, Layout, LayoutBuilder, Snapshot

WINDOW = 60.0

#: Peak signal → the gauge that it is the maximum of.
PEAKS = {
    "requests_waiting_peak": "requests_waiting",
    "requests_running_peak": "requests_running",
    "kv_cache_usage_peak_ratio": "kv_cache_usage_max_ratio",
}


class Peaks:
    """`*_peak`: the maximum over the polls of the last 60 s of running, waiting and KV cache usage.

    Absent while the target's own data is absent.
    """

    def __init__(self) -> None:
        self._history = History(tuple(PEAKS.values()), (), WINDOW)
        self._for: Layout | None = None
        self._layout: Layout = EMPTY_LAYOUT

    def feed(self, snapshot: Snapshot) -> Block | None:
        data = snapshot.data
        if not data.layout.size:
            return None
        if snapshot.up:
            self._history.append(data, snapshot.mono, snapshot.epoch)
        tracks = [
            (peak, series.labels, track)
            for peak, gauge in PEAKS.items()
            for series, track in self._history.tracks(gauge)
        ]
        if data.layout is not self._for:
            self._for = data.layout
            build = LayoutBuilder()
            for peak, labels, _ in tracks:
                build.add(peak, labels)
            self._layout = build.build()
        return Block(self._layout, tuple([track.peak(WINDOW) for _, _, track in tracks]))
