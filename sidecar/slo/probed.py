"""Objectives on the sidecar's own probes: the block that probes have added, judged as a runtime's data is."""

from __future__ import annotations

from dataclasses import replace

from sidecar.slo.objective import LATENCIES, PROBED
from sidecar.snapshot import EMPTY_BLOCK, EMPTY_LAYOUT, Block, Layout, Snapshot

_SIGNALS = tuple(LATENCIES[name] for name in PROBED)


def on_probes(snapshot: Snapshot) -> Snapshot:
    """The snapshot as the judge of probes sees it: their counts are the data, and no restart of the runtime sets
    them back."""
    data = next(
        (one for one in snapshot.extra if any(name in one.layout.by_signal for name in _SIGNALS)), EMPTY_BLOCK
    )
    return replace(snapshot, data=data, life=EMPTY_BLOCK, epoch=0, extra=(), reread=False, rebased=False)


class Join:
    """Two blocks as one; its layout changes only when one of theirs does."""

    def __init__(self) -> None:
        self._of: tuple[Layout, Layout] = (EMPTY_LAYOUT, EMPTY_LAYOUT)
        self._layout = EMPTY_LAYOUT

    def of(self, first: Block, second: Block) -> Block:
        if (first.layout, second.layout) != self._of:
            self._of = (first.layout, second.layout)
            shifted = (replace(one, start=one.start + first.layout.size) for one in second.layout.series)
            self._layout = Layout((*first.layout.series, *shifted))
        return Block(self._layout, (*first.values, *second.values))
