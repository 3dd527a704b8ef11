"""The iteration statistics of `GET /metrics`: rows that are gone once read.

A row is taken at the start of an iteration, and none is made while nothing is active. So the newest row never
says idle: it is idle when no row follows. Rows that are missing between two numbers went to another reader.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite, nan
from typing import Any

from sidecar.exposition import PageError, Reading, Sample, Shape
from sidecar.exposition.errors import shown

#: Seconds without a row after which the engine is idle.
IDLE_AFTER = 5.0

_PREFIX = "json:"
#: What is counted over the rows.
SUMMED = (
    "numCompletedRequests",
    "newActiveRequestsQueueLatencyMS",
    "numNewActiveRequests",
    "specDecodingStats.numDraftTokens",
    "specDecodingStats.numAcceptedTokens",
)
#: What the newest row says and what stays when no row follows.
STANDING = ("maxNumActiveRequests", "kvCacheStats.usedNumBlocks", "kvCacheStats.maxNumBlocks")
TOKENS_PER_BLOCK = "kvCacheStats.tokensPerBlock"
CUMULATIVE = ("kvCacheStats.reusedBlocks", "kvCacheStats.missedBlocks")


@dataclass(slots=True)
class _Rank:
    """One attention-data-parallel rank: its newest row and what its rows add up to."""

    newest: dict[str, Any] = field(default_factory=dict)
    iteration: int | None = None
    sums: dict[str, float] = field(default_factory=dict)  # of what any row told
    scheduled: float = 0.0
    rows: int = 0


class Iterations:
    """The one reader of a server's rows. `lost` counts the rows that somebody else has read."""

    def __init__(self) -> None:
        self.lost = 0
        self.seen = False  # any row, ever
        self._ranks: dict[int, _Rank] = {}
        self._last_row_at = nan
        self._stride = 1  # iter_perf_stats_interval: only each n-th iteration has a row
        self._shape = Shape((), {}, ())

    def read(self, body: bytes, now: float) -> Reading:
        """The present state and the sums as samples `json:…{rank}`; none before the first row.

        Raises PageError when the body isn't a list of rows.
        """
        try:
            rows = json.loads(body)
        except (ValueError, RecursionError):
            raise PageError("parse_error", f"iteration statistics that aren't JSON: {shown(body)}") from None
        if not isinstance(rows, list):
            raise PageError("not_metrics", f"not a list of iteration statistics: {shown(body)}")
        known = [row for row in rows if isinstance(row, dict)]
        if known:
            self._count(known)
            self._last_row_at, self.seen = now, True
        return self._reading(idle=now - self._last_row_at > IDLE_AFTER)

    def _count(self, rows: list[dict[str, Any]]) -> None:
        by_rank: dict[int, list[dict[str, Any]]] = {}
        for row in rows:
            rank = row.get("attentionDpRank")
            by_rank.setdefault(rank if isinstance(rank, int) else 0, []).append(row)
        for number, own in by_rank.items():
            own.sort(key=lambda row: _whole(row.get("iter")))
            rank = self._ranks.setdefault(number, _Rank())
            if rank.iteration is not None and _whole(own[-1].get("iter")) < rank.iteration:
                rank = self._ranks[number] = _Rank()  # the server restarted: iterations count anew
            self._learn_stride([_whole(row.get("iter")) for row in own])
            for row in own:
                self._add(rank, row)

    def _learn_stride(self, iterations: list[int]) -> None:
        steps = {later - earlier for earlier, later in pairwise(iterations)}
        if len(iterations) > 3 and len(steps) == 1:
            self._stride = max(1, steps.pop())

    def _add(self, rank: _Rank, row: dict[str, Any]) -> None:
        iteration = _whole(row.get("iter"))
        if rank.iteration is not None:
            if iteration <= rank.iteration:
                return
            self.lost += max(0, (iteration - rank.iteration) // self._stride - 1)
        rank.iteration, rank.newest = iteration, row
        rank.rows += 1
        scheduled = _number(row, "inflightBatchingStats.numScheduledRequests")
        rank.scheduled += scheduled if scheduled == scheduled else 0.0
        for name in SUMMED:
            value = _number(row, name)
            if value == value:
                rank.sums[name] = rank.sums.get(name, 0.0) + value

    def _reading(self, *, idle: bool) -> Reading:
        samples: list[tuple[str, str, int, float]] = []
        for number, rank in sorted(self._ranks.items()):
            samples += [(name, kind, number, value) for name, kind, value in _told(rank, idle=idle)]
        if len(samples) != len(self._shape.samples) or any(
            sample.name != _PREFIX + name or sample.label("rank") != str(number)
            for sample, (name, _, number, _) in zip(self._shape.samples, samples, strict=True)
        ):
            self._shape = Shape(
                tuple(
                    Sample(_PREFIX + name, (("rank", str(number)),), _PREFIX + name, kind)
                    for name, kind, number, _ in samples
                ),
                {_PREFIX + name: kind for name, kind, _, _ in samples},
                (),
            )
        return Reading(self._shape, [value for *_, value in samples])


def _told(rank: _Rank, *, idle: bool) -> list[tuple[str, str, float]]:
    """(name, type, value) of what a rank says."""
    row = rank.newest
    scheduled = _number(row, "inflightBatchingStats.numScheduledRequests")
    active, queued = _number(row, "numActiveRequests"), _number(row, "numQueuedRequests")
    done = _number(row, "numCompletedRequests")
    running = max(0.0, scheduled - (done if done == done else 0.0))
    present = (0.0, 0.0, 0.0) if idle else (running, max(0.0, active - scheduled), queued)
    told = [
        (name, "gauge", value)
        for name, value in zip(("running", "unscheduled", "queued"), present, strict=True)
    ]
    told += [(name, "gauge", _number(row, name)) for name in (*STANDING, TOKENS_PER_BLOCK)]
    told += [(name, "counter", _number(row, name)) for name in CUMULATIVE]
    told += [(name, "counter", rank.sums[name]) for name in SUMMED if name in rank.sums]
    return [*told, ("numScheduledRequests", "counter", rank.scheduled), ("rows", "counter", float(rank.rows))]


def _number(row: dict[str, Any], path: str) -> float:
    """The number at a dotted path; NaN when there is none."""
    value: Any = row
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return nan
    try:
        number = float(value)
    except OverflowError:
        return nan
    return number if isfinite(number) else nan


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0
