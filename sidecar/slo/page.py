"""A target's objectives as a block: the layout while accounts stay, the numbers of each tick."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

from sidecar.slo import formulas
from sidecar.slo.account import Account
from sidecar.slo.objective import GOODPUT, Objective
from sidecar.slo.ring import Base, Ring
from sidecar.slo.track import Track
from sidecar.slo.windows import duration_text
from sidecar.snapshot import EMPTY_LAYOUT, Block, LayoutBuilder, Snapshot

#: A burn rate is published from this share of its window on.
ENOUGH = 0.9


@dataclass(frozen=True, slots=True)
class _Row:
    """An account with what doesn't change from tick to tick."""

    account: Account
    column: int
    budget: float
    spans: tuple[float, ...]
    period: float
    bounds: tuple[str, ...]

    @property
    def covered(self) -> tuple[float, ...]:
        return tuple(dict.fromkeys((*self.spans, self.period)))


def _row(account: Account) -> _Row:
    objective = account.objective
    bounds = ("strict", "lenient") if objective.signal == GOODPUT else ("strict", "lenient", "estimate")
    return _Row(account, account.column, objective.budget, objective.spans, objective.period, bounds)


class Page:
    """Renders a track. Series are ordered by family; NaN where nothing can be said."""

    def __init__(self, track: Track) -> None:
        self.track = track
        self._made_for: tuple[str, int] | None = None
        self._layout = EMPTY_LAYOUT
        self._rows: list[_Row] = []
        self._infos: tuple[float, ...] = ()
        self._spans = {span for one in track.objectives for span in (*one.spans, one.period)}

    def render(self, snapshot: Snapshot) -> Block:
        """The block at the snapshot's moment, after the track was fed with it."""
        track, now = self.track, snapshot.mono
        if self._made_for != (snapshot.runtime, track.revision):
            self._made_for = (snapshot.runtime, track.revision)
            self._compile(snapshot.target, snapshot.runtime)
        ring = track.ring
        bases = {span: ring.base(now, span) for span in self._spans}
        events: list[float] = []
        bad: list[float] = []
        burn: list[float] = []
        coverage: list[float] = []
        remaining: list[float] = []
        for row in self._rows:
            counts = row.account.counts
            events.append(counts.events)
            bad += (counts.strict, counts.lenient, counts.estimate)[: len(row.bounds)]
            for span in row.spans:
                seen, rate = _burn(row, ring, bases[span], span)
                coverage.append(seen)
                burn.append(rate if seen >= ENOUGH else nan)
            seen, rate = _burn(row, ring, bases[row.period], row.period)
            if row.period not in row.spans:
                coverage.append(seen)
            remaining.append(1.0 - rate)
        refused = float(track.refused)
        return Block(self._layout, (*events, *bad, *burn, *coverage, *remaining, *self._infos, refused))

    def _compile(self, target: str, runtime: str) -> None:
        builder = LayoutBuilder()
        self._rows = [_row(account) for account in self.track.columns]
        rows = [(row, _labels(target, runtime, row.account)) for row in self._rows]
        for _, labels in rows:
            builder.add("slo_events_total", labels)
        for row, labels in rows:
            for bound in row.bounds:
                builder.add("slo_bad_events_total", {**labels, "bound": bound})
        for row, labels in rows:
            for span in row.spans:
                builder.add("slo_burn_rate", {**labels, "window": duration_text(span)})
        for row, labels in rows:
            for span in row.covered:
                builder.add("slo_window_coverage_ratio", {**labels, "window": duration_text(span)})
        for _, labels in rows:
            builder.add("slo_error_budget_remaining_ratio", labels)
        accounts = [*self.track.accounts.values(), *(Account(one, "") for one in self.track.unseen)]
        for account in accounts:
            builder.add("slo_info", {**_labels(target, runtime, account), **_info(account)})
        self._infos = (1.0,) * len(accounts)
        own = {"target": target} | ({"runtime": runtime} if runtime else {})
        builder.add("slo_accounts_refused", own)
        self._layout = builder.build()


def _burn(row: _Row, ring: Ring, base: Base | None, span: float) -> tuple[float, float]:
    """Share of a window that was seen, and its burn rate (NaN when nothing was)."""
    account = row.account
    if base is None or not account.judged:
        return 0.0, nan
    seen = base.coverage
    if base.time < account.born:
        seen = min(1.0, (ring.seen - account.born_seen) / span)
    columns, counts, earlier = ring.tiers[base.tier].columns, account.counts, account.earlier
    total = earlier.events + counts.events - columns[row.column][base.index]
    bad = earlier.lenient + counts.lenient - columns[row.column + 1][base.index]
    return seen, formulas.burn_rate(bad, total, row.budget) if seen > 0 else nan


def _labels(target: str, runtime: str, account: Account) -> dict[str, str]:
    labels = {
        "target": target,
        "runtime": runtime,
        "model_name": account.model,
        "slo": account.objective.name,
    }
    return {name: value for name, value in labels.items() if value}


def _info(account: Account) -> dict[str, str]:
    objective: Objective = account.objective
    return {
        "signal": objective.signal,
        "threshold": objective.threshold_text,
        "objective": f"{objective.objective:.12g}",
        "period": duration_text(objective.period),
        "status": account.status.value,
        "method": "bounds" if objective.signal == GOODPUT else objective.method,
    }
