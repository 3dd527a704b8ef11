"""Energy by target, from the boards' counters. Pure but for what it remembers."""

from __future__ import annotations

from sidecar.snapshot import Block, is_absent


class EnergyMeter:
    """Joules that each target's GPUs have used since it was last asked.

    A board that several share (MIG, time-slicing) is left out: its energy can't be told apart. So is one
    whose owner isn't known.
    """

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._source = ""

    def update(self, block: Block) -> dict[str, float]:
        """Increments by target. A counter that fell was reset with its driver: it has counted from 0 since.

        A GPU that is seen for the first time gives 0: what it used before isn't known to be the target's. One
        that is absent for a while is caught up with when it comes back. Sources count from different moments
        (the driver's start, Triton's): after a change of source all are seen for the first time.
        """
        owner = sole_owners(block)
        source = next((one.label("source") for one in block.layout.find("gpu_collect_success")), "")
        if source and source != self._source:
            self._source, self._last = source, {}
        increments: dict[str, float] = {}
        for series in block.layout.find("gpu_energy_joules_total"):
            now, uuid = block.values[series.start], series.label("gpu_uuid")
            if is_absent(now):
                continue
            last = self._last.get(uuid)
            self._last[uuid] = now
            if uuid in owner:
                used = 0.0 if last is None else now - last if now >= last else now
                increments[owner[uuid]] = increments.get(owner[uuid], 0.0) + used
        return increments


def sole_owners(block: Block) -> dict[str, str]:
    """GPU → the target that has it whole and alone."""
    owners: dict[str, set[tuple[str, str, str]]] = {}
    sliced: set[str] = set()
    for series in block.layout.find("gpu_allocation_info"):
        uuid = series.label("gpu_uuid")
        owners.setdefault(uuid, set()).add(
            (series.label("target"), series.label("pod"), series.label("namespace"))
        )
        if series.label("gpu_instance"):
            sliced.add(uuid)
    return {
        uuid: target
        for uuid, found in owners.items()
        if len(found) == 1 and uuid not in sliced
        for target, _, _ in found
        if target
    }
