"""The last publication: one reference, swapped, which every output reads."""

from __future__ import annotations

import time

from sidecar.snapshot import Block, Publication, Snapshot


class Board:
    """Collects the targets' snapshots and shared blocks, and publishes them as one frozen value."""

    def __init__(self) -> None:
        self._snapshots: dict[str, Snapshot] = {}
        self._shared: dict[str, tuple[Block, ...]] = {}
        self._publication = Publication(0.0)

    def publication(self) -> Publication:
        return self._publication

    def publish(self, snapshot: Snapshot) -> None:
        self._snapshots[snapshot.target] = snapshot
        self.swap()

    def share(self, name: str, blocks: tuple[Block, ...]) -> None:
        """Blocks of no single target, by the name of who gives them."""
        self._shared[name] = blocks
        self.swap()

    def remove(self, target: str) -> None:
        self._snapshots.pop(target, None)
        self.swap()

    def swap(self) -> None:
        self._publication = Publication(
            time=time.time(),
            snapshots=tuple(self._snapshots.values()),
            shared=tuple(block for blocks in self._shared.values() for block in blocks),
            serial=self._publication.serial + 1,
        )
