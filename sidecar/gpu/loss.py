"""Whether a GPU that was there is gone for good: what `gpu.exit_on_loss` waits for. Pure: clocks come in."""

from __future__ import annotations

from collections.abc import Iterable

from sidecar.gpu.reading import GpuReading

#: Of the process that ends because of it: nothing else ends with this code.
EXIT_CODE = 3


class LossWatch:
    """Looks at readings by NVML. Only what this process has seen at work can be lost: whoever is started anew and
    finds no GPU doesn't end again."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._since: float | None = None

    def look(self, reading: GpuReading, now: float, after: float) -> str:
        """Why it counts as lost: without a whole pass for `after` seconds (monotonic `now`). Empty until then."""
        if reading.source != "nvml":
            self._since = None
            return ""
        up = {
            series.label("gpu_uuid"): reading.block.values[series.start] == 1
            for series in reading.block.layout.by_signal.get("gpu_up", ())
        }
        gone = sorted(uuid for uuid in self._seen if not up.get(uuid, True))
        if reading.ok:
            self._seen |= {uuid for uuid, there in up.items() if there}
        if not self._seen or (reading.ok and not gone):
            self._since = None
            return ""
        if self._since is None:
            self._since = now
        if now - self._since < after:
            return ""
        return _why(gone, reading)


def _why(gone: Iterable[str], reading: GpuReading) -> str:
    causes = [
        note.detail or note.reason
        for note in reading.notes
        if note.what in ("collection", "gpu_up") or note.what.startswith("GPU ")
    ]
    lost = f"lost: {', '.join(gone)}" if gone else "NVML can't be read"
    return f"{lost} ({'; '.join(dict.fromkeys(causes))})" if causes else lost
