"""What the page remembers of a target: the charted numbers of 15 minutes, counters of the last minute, and
the last scrapes.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import isinf, nan

from sidecar.outputs.web.numbers import highest, numbers, some, total
from sidecar.snapshot import ABSENT, Snapshot, is_absent

HORIZON = 900.0
RECENT = 60.0
SCRAPES = 20

#: Most objectives that are charted; the page's table has all of them.
BURN_LINES = 6

_SLACK = 64
_COUNTERS = ("preemptions_total", "generation_tokens_total", "prompt_tokens_total")
_LATENCIES = ("time_to_first_token_seconds", "e2e_request_latency_seconds")


@dataclass(frozen=True, slots=True)
class Scrape:
    """One scrape as it ended: Unix time, seconds it took, one of `SCRAPE_RESULTS`, and what was wrong."""

    time: float
    took: float
    result: str
    detail: str


class Ring:
    """Columns over time as far back as `HORIZON`; a column that comes later is absent before."""

    def __init__(self) -> None:
        self.times = array("d")
        self.columns: dict[str, array[float]] = {}

    def append(self, time: float, row: dict[str, float]) -> None:
        for name in row:
            if name not in self.columns:
                self.columns[name] = array("d", [nan]) * len(self.times)
        self.times.append(time)
        for name, column in self.columns.items():
            column.append(row.get(name, nan))
        old = sum(1 for moment in self.times[: 2 * _SLACK] if moment < time - HORIZON)
        if old > _SLACK:
            del self.times[:old]
            for column in self.columns.values():
                del column[:old]

    def last(self) -> dict[str, float | None]:
        """The newest number of each column, and its time `t`."""
        if not self.times:
            return {}
        newest: dict[str, float | None] = {"t": round(self.times[-1], 2)}
        return newest | {name: some(column[-1]) for name, column in self.columns.items()}

    def json(self) -> dict[str, list[float | None]]:
        """Columns by name; `t` is Unix time, null is absent. Columns without any value are left out."""
        columns: dict[str, list[float | None]] = {"t": [round(moment, 2) for moment in self.times]}
        for name, column in self.columns.items():
            values = [some(value) for value in column]
            if any(value is not None for value in values):
                columns[name] = values
        return columns


class Trail:
    """One target. Fed with each of its snapshots; each costs some microseconds."""

    def __init__(self) -> None:
        self.ring = Ring()
        self.scrapes: deque[Scrape] = deque(maxlen=SCRAPES)
        self.latency = ""  # the histogram that the quantiles are of
        self._epoch = -1
        self._cumulative: deque[tuple[float, dict[str, float], tuple[float, ...]]] = deque()
        self._bounds: tuple[float, ...] = ()
        self._results: dict[str, float] = {}
        self._spent = 0.0

    def feed(self, snapshot: Snapshot) -> None:
        """Remember a snapshot; one that was fed already is passed over."""
        if self.scrapes and snapshot.time <= self.scrapes[-1].time:
            return
        self._count(snapshot)
        self.ring.append(snapshot.time, self._row(snapshot))
        self._log(snapshot)

    def rate(self, counter: str) -> float:
        """Increase a second over the last minute; NaN without two readings."""
        if len(self._cumulative) < 2:
            return ABSENT
        (begin, old, _), (end, new, _) = self._cumulative[0], self._cumulative[-1]
        return (new.get(counter, nan) - old.get(counter, nan)) / (end - begin)

    def quantile(self, share: float) -> float:
        """Of the requests of the last minute, by linear interpolation within a bucket; NaN without one."""
        return quantile(share, self._bounds, self._observed()[:-1]) if len(self._bounds) > 1 else ABSENT

    def mean(self) -> float:
        """Of the requests of the last minute, where there are no buckets; NaN where there are some."""
        observed = self._observed()
        if len(self._bounds) != 1 or not observed or observed[0] <= 0:
            return ABSENT
        return observed[1] / observed[0]

    def _observed(self) -> list[float]:
        """Increases of the last minute: each cumulative bucket, then the sum."""
        if len(self._cumulative) < 2:
            return []
        old, new = self._cumulative[0][2], self._cumulative[-1][2]
        return [after - before for after, before in zip(new, old, strict=True)]

    @property
    def last(self) -> Scrape | None:
        return self.scrapes[-1] if self.scrapes else None

    def _count(self, snapshot: Snapshot) -> None:
        self.latency, bounds, buckets = _latency(snapshot)
        if snapshot.epoch != self._epoch or bounds != self._bounds or not snapshot.up:
            self._cumulative.clear()
            self._epoch, self._bounds = snapshot.epoch, bounds
        if not snapshot.up:
            return
        counters = {name: total((snapshot.data,), name) for name in _COUNTERS}
        counters["requests_total"] = total((snapshot.data,), "requests_total")
        counters["errors"] = sum(
            value
            for labels, value in numbers((snapshot.data,), "requests_total")
            if labels.get("outcome") in ("error", "timeout", "rejected")
        )
        self._cumulative.append((snapshot.mono, counters, buckets))
        while len(self._cumulative) > 2 and self._cumulative[1][0] <= snapshot.mono - RECENT:
            self._cumulative.popleft()

    def _row(self, snapshot: Snapshot) -> dict[str, float]:
        blocks = snapshot.blocks
        row = {
            "running": total(blocks, "requests_running"),
            "waiting": total(blocks, "requests_waiting"),
            "kv": highest(blocks, "kv_cache_usage_ratio"),
            "p50": self.quantile(0.5),
            "p95": self.quantile(0.95),
            "mean": self.mean(),
        }
        for slo, burn in list(short_burns(snapshot).items())[:BURN_LINES]:
            row["burn " + slo] = burn
        return row

    def _log(self, snapshot: Snapshot) -> None:
        results = {
            labels["result"]: value for labels, value in numbers((snapshot.life,), "target_scrapes_total")
        }
        moved = [name for name, value in results.items() if value > self._results.get(name, 0.0)]
        result = next((name for name in moved if (name == "ok") is snapshot.up), "ok" if snapshot.up else "?")
        spent = next(
            (
                snapshot.life.values[series.sum_index]
                for series in snapshot.life.layout.by_signal.get("target_scrape_duration_seconds", ())
            ),
            ABSENT,
        )
        took = spent - self._spent if self._results else ABSENT
        self._results, self._spent = results, spent
        self.scrapes.append(Scrape(snapshot.time, took, result, snapshot.reasons.get("scrape", "")))


def short_burns(snapshot: Snapshot) -> dict[str, float]:
    """Each objective's burn rate over its shortest window that is published, the worst of its models."""
    burns: dict[str, float] = {}
    window_of: dict[str, str] = {}
    for labels, value in numbers(snapshot.extra, "slo_burn_rate"):
        slo, window = labels["slo"], labels["window"]
        if window_of.setdefault(slo, window) == window:  # windows come in ascending order
            burns[slo] = max(value, burns.get(slo, 0.0))
    return burns


def quantile(share: float, bounds: Sequence[float], cumulative: Sequence[float]) -> float:
    """As Prometheus' histogram_quantile: in the +Inf bucket the highest finite bound is all that is known.
    NaN without an observation or without a finite bound."""
    if not cumulative or cumulative[-1] <= 0 or len(bounds) < 2:
        return ABSENT
    rank = share * cumulative[-1]
    lower, below = 0.0, 0.0
    for bound, reached in zip(bounds, cumulative, strict=True):
        if reached >= rank:
            if isinf(bound):
                return lower
            inside = reached - below
            return lower + (bound - lower) * ((rank - below) / inside if inside > 0 else 1.0)
        lower, below = bound, reached
    return lower


def _latency(snapshot: Snapshot) -> tuple[str, tuple[float, ...], tuple[float, ...]]:
    """A latency of the target, added up over its models: name, bounds, cumulative buckets and the sum. The
    first that has buckets, else the first that has sum and count.
    """
    data = snapshot.data
    for least in (2, 1):
        for name in _LATENCIES:
            found = [one for one in data.layout.by_signal.get(name, ()) if len(one.bounds) >= least]
            parts = [
                data.values[one.start : one.start + one.width]
                for one in found
                if one.bounds == found[0].bounds and not is_absent(data.values[one.count_index])
            ]
            if parts:
                return name, found[0].bounds, tuple(map(sum, zip(*parts, strict=True)))
    return "", (), ()
