"""Objectives on the sidecar's own probes: the block that probes have added, judged as a runtime's data is."""

from __future__ import annotations

from dataclasses import replace

from sidecar.slo.objective import LATENCIES, PROBED
from sidecar.snapshot import EMPTY_BLOCK, EMPTY_LAYOUT, Block, Layout, LayoutBuilder, Snapshot

_SIGNALS = tuple(LATENCIES[name] for name in PROBED)


def on_probes(snapshot: Snapshot) -> Snapshot:
    """The snapshot as the judge of probes sees it: their counts are the data, and no restart of the runtime sets
    them back."""
    data = next(
        (one for one in snapshot.extra if any(name in one.layout.by_signal for name in _SIGNALS)), EMPTY_BLOCK
    )
    return replace(snapshot, data=data, life=EMPTY_BLOCK, epoch=0, extra=(), reread=False, rebased=False)


class Join:
    """Two blocks as one; its layout changes only when one of theirs does. A series of both is the first's."""

    def __init__(self) -> None:
        self._of: tuple[Layout, Layout] = (EMPTY_LAYOUT, EMPTY_LAYOUT)
        self._layout = EMPTY_LAYOUT
        self._kept: tuple[int, ...] = ()  # places of the second block

    def of(self, first: Block, second: Block) -> Block:
        if (first.layout, second.layout) != self._of:
            self._of = (first.layout, second.layout)
            known = {(one.signal.name, one.labels) for one in first.layout.series}
            more = [one for one in second.layout.series if (one.signal.name, one.labels) not in known]
            self._kept = tuple(place for one in more for place in range(one.start, one.start + one.width))
            builder = LayoutBuilder()
            for one in (*first.layout.series, *more):
                builder.add(one.signal, one.labels, one.bounds)
            self._layout = builder.build()
        return Block(self._layout, (*first.values, *(second.values[place] for place in self._kept)))
