"""Gauges of a multi-process Python server: one series a process, dead ones too.

With a PROMETHEUS_MULTIPROC_DIR of the user's own the files of earlier processes stay, and their gauges with them.
"""

from __future__ import annotations

from sidecar.exposition import Reading, Sample, Shape

Key = tuple[str, tuple[tuple[str, str], ...]]


class Pids:
    """Which process speaks for a series that several have: the one that changed it last, else the youngest."""

    def __init__(self) -> None:
        self._shape: Shape | None = None
        self._groups: dict[Key, dict[str, int]] = {}  # pid → slot, of series that several processes have
        self._values: dict[int, float] = {}
        self.chosen: dict[Key, str] = {}

    def watch(self, reading: Reading) -> None:
        if reading.shape is not self._shape:
            self._compile(reading.shape)
        for key, slots in self._groups.items():
            moved = [pid for pid, slot in slots.items() if reading.values[slot] != self._values.get(slot)]
            if self._values and moved and self.chosen[key] not in moved:
                self.chosen[key] = max(moved, key=_age)
        self._values = {
            slot: reading.values[slot] for slots in self._groups.values() for slot in slots.values()
        }

    def speaks(self, sample: Sample) -> bool:
        """Whether a sample is to be read."""
        pid = sample.label("pid")
        return not pid or self.chosen.get(_key(sample), pid) == pid

    def _compile(self, shape: Shape) -> None:
        found: dict[Key, dict[str, int]] = {}
        for slot, sample in enumerate(shape.samples):
            if pid := sample.label("pid"):
                found.setdefault(_key(sample), {})[pid] = slot
        self._shape, self._values = shape, {}
        self._groups = {key: slots for key, slots in found.items() if len(slots) > 1}
        self.chosen = {
            key: self.chosen[key] if self.chosen.get(key) in slots else max(slots, key=_age)
            for key, slots in self._groups.items()
        }


def _key(sample: Sample) -> Key:
    return sample.name, tuple(pair for pair in sample.labels if pair[0] != "pid")


def _age(pid: str) -> int:
    return int(pid) if pid.isdecimal() else 0
