"""The pool of KV blocks: private blocks of sequences, and shared prefixes that outlive them.

The unit of the prefix cache is the prefix of a key (a system prompt, a conversation), in whole blocks. A
prefix that a sequence holds counts as used; one that nobody holds stays cached and counts as free, and is
forgotten, least recently used first, when blocks are short. That is what vLLM's gauge shows: usage falls to
0 when the engine is idle although the cache is full.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Prefix:
    """Cached blocks of one key and the number of sequences that hold them."""

    key: Hashable
    blocks: int = 0
    holders: int = 0


class BlockPool:
    """Blocks of one engine: `used` are held by sequences, `cached` by nobody but the prefix cache."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0
        self.cached = 0
        self._prefixes: dict[Hashable, Prefix] = {}
        self._idle: dict[Hashable, Prefix] = {}  # in order of last use

    @property
    def free(self) -> int:
        """Blocks that could be had, those of idle prefixes included."""
        return self.total - self.used

    def take(self, blocks: int) -> bool:
        """Take private blocks, forgetting idle prefixes if needed. False, and nothing taken, if they aren't
        there."""
        if blocks > self.free:
            return False
        while blocks > self.total - self.used - self.cached:
            forgotten = self._idle.pop(next(iter(self._idle)))
            self.cached -= forgotten.blocks
            del self._prefixes[forgotten.key]
        self.used += blocks
        return True

    def give(self, blocks: int) -> None:
        """Give private blocks back."""
        self.used -= blocks

    def look_up(self, key: Hashable) -> Prefix | None:
        return self._prefixes.get(key)

    def hold(self, prefix: Prefix) -> None:
        """A sequence uses the prefix: its blocks can't be forgotten."""
        if prefix.holders == 0:
            del self._idle[prefix.key]
            self.cached -= prefix.blocks
            self.used += prefix.blocks
        prefix.holders += 1

    def release(self, prefix: Prefix) -> None:
        prefix.holders -= 1
        if prefix.holders == 0:
            self._idle[prefix.key] = prefix
            self.used -= prefix.blocks
            self.cached += prefix.blocks

    def publish(self, key: Hashable, blocks: int) -> Prefix | None:
        """Make `blocks` private blocks of a sequence the prefix of a key, held by that sequence. None if
        the key has a prefix already: the sequence keeps its blocks, a duplicate."""
        if key in self._prefixes:
            return None
        prefix = self._prefixes[key] = Prefix(key, blocks, holders=1)
        return prefix

    def grow(self, prefix: Prefix, blocks: int) -> int:
        """Let a held prefix take over private blocks up to a size of `blocks`; returns how many it took."""
        growth = max(0, blocks - prefix.blocks)
        prefix.blocks += growth
        return growth

    def forget(self) -> None:
        """Drop every idle prefix (a reset of the prefix cache)."""
        for key in self._idle:
            del self._prefixes[key]
        self._idle.clear()
        self.cached = 0
