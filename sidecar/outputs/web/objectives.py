"""A target's objectives as rows: what was promised, how fast the budget burns, how much of it is left."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from math import inf

from sidecar.config.quantities import parse_duration
from sidecar.outputs.web.numbers import numbers, seconds
from sidecar.snapshot import ABSENT, Snapshot, is_absent

#: Names in sentences and headings.
SIGNAL_WORDS = {
    "time_to_first_token": "time to first token",
    "inter_token_latency": "inter-token latency",
    "time_per_output_token": "time per output token",
    "e2e_request_latency": "request latency",
    "request_queue_time": "queue time",
    "probe_time_to_first_token": "time to first token of probes",
    "probe_inter_token_latency": "inter-token latency of probes",
    "availability": "availability",
    "goodput": "goodput",
}


@dataclass(slots=True)
class Row:
    """One objective of one model. Absent numbers are NaN."""

    slo: str
    model: str
    signal: str
    threshold: str
    objective: float
    period: str
    status: str
    events: float = ABSENT
    bad: float = ABSENT
    budget: float = ABSENT  # share of it that is left over the period
    burn: dict[str, float] = field(default_factory=dict)

    @property
    def now(self) -> float:
        """Burn rate of the shortest window that is published."""
        return next(iter(self.burn.values()), ABSENT)

    @property
    def gone_in(self) -> float:
        """Seconds until the budget is used up if it goes on burning as now; infinite when it never will be.

        remaining budget · period ÷ burn rate: a burn rate of 1 uses the whole budget in one period.
        """
        burn = self.sustained
        if is_absent(self.budget) or is_absent(burn):
            return ABSENT
        if self.budget <= 0:
            return 0.0
        return self.budget * parse_duration(self.period) / burn if burn > 0 else inf

    @property
    def sustained(self) -> float:
        """The lower of the burn rates over the two shortest windows: a spike of a minute is no trend."""
        return min(list(self.burn.values())[:2], default=ABSENT)

    @property
    def promise(self) -> str:
        """`95 % below 800 ms`."""
        share = f"{self.objective * 100:.6g} %"
        if not self.threshold:
            return f"{share} good"
        with suppress(ValueError):
            return f"{share} below {seconds(float(self.threshold))}"
        return f"{share} within {self.threshold}"


def objectives(snapshot: Snapshot) -> list[Row]:
    """The worst first: the least budget left, those that can't be measured last."""
    rows: dict[tuple[str, str], Row] = {}
    for labels, _ in numbers(snapshot.extra, "slo_info"):
        rows[labels["slo"], labels.get("model_name", "")] = Row(
            slo=labels["slo"],
            model=labels.get("model_name", ""),
            signal=labels.get("signal", ""),
            threshold=labels.get("threshold", ""),
            objective=float(labels.get("objective", "nan")),
            period=labels.get("period", ""),
            status=labels.get("status", ""),
        )

    def row_of(labels: dict[str, str]) -> Row | None:
        return rows.get((labels["slo"], labels.get("model_name", "")))

    for labels, value in numbers(snapshot.extra, "slo_events_total"):
        if (row := row_of(labels)) is not None:
            row.events = value
    for labels, value in numbers(snapshot.extra, "slo_bad_events_total"):
        if labels.get("bound") == "lenient" and (row := row_of(labels)) is not None:
            row.bad = value
    for labels, value in numbers(snapshot.extra, "slo_burn_rate"):
        if (row := row_of(labels)) is not None:
            row.burn[labels["window"]] = value
    for labels, value in numbers(snapshot.extra, "slo_error_budget_remaining_ratio"):
        if (row := row_of(labels)) is not None:
            row.budget = value
    return sorted(rows.values(), key=lambda row: (is_absent(row.budget), row.budget, row.slo))
