"""The events of one objective and one model: what was counted, and since when."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import nan

from sidecar.slo.objective import GOODPUT, Objective

#: Limits of a goodput are combined over blocks of this many seconds, see `Account.settle`.
BLOCK = 300.0


class Status(StrEnum):
    """Whether an objective can be judged: the label `status` of `slo_info`."""

    OK = "ok"
    ESTIMATED = "estimated"
    NOT_MEASURABLE = "not_measurable"
    NO_DATA = "no_data"


@dataclass(slots=True)
class Counts:
    """Events so far, and how many of them were bad at most, at least, and probably."""

    events: float = 0.0
    strict: float = 0.0
    lenient: float = 0.0
    estimate: float = 0.0

    def add(self, events: float, good_at_least: float, good_at_most: float, fraction: float) -> None:
        """Add events; good ones are known within two bounds, `fraction` is where between them."""
        self.events += events
        self.strict += max(0.0, events - good_at_least)
        self.lenient += max(0.0, events - good_at_most)
        self.estimate += max(0.0, events - good_at_least - (good_at_most - good_at_least) * fraction)


class Account:
    """What is known of one objective and model. `counts` start at 0 in each process; `earlier` came before.

    `born` and `born_seen` (the ring's clock and seconds seen) say since when it is watched without a break.
    `judged` says whether events are being counted now. `column` is its place in the ring, -1 before it could
    ever be measured. `gone` is since when (ring's clock) a page that can be read has had nothing of the model,
    NaN while it is served.
    """

    __slots__ = (
        "block_end",
        "born",
        "born_seen",
        "column",
        "counts",
        "earlier",
        "gone",
        "judged",
        "model",
        "objective",
        "parts",
        "reason",
        "settled",
        "status",
    )

    def __init__(self, objective: Objective, model: str) -> None:
        self.objective = objective
        self.model = model
        self.column = -1
        self.become(Status.NO_DATA, "")
        self.counts = Counts()
        self.earlier = Counts()
        self.born = nan
        self.born_seen = nan
        self.gone = nan
        self.parts = [Counts() for _ in objective.terms] if objective.signal == GOODPUT else [self.counts]
        self.settled = Counts()
        self.block_end = nan

    @property
    def key(self) -> tuple[str, str]:
        return self.objective.fingerprint, self.model

    @property
    def ends(self) -> float:
        """When no window of it reaches back to the time that its model was served; NaN while it is."""
        return self.gone + max((*self.objective.spans, self.objective.period))

    def become(self, status: Status, reason: str) -> None:
        self.status, self.reason = status, reason
        self.judged = status in (Status.OK, Status.ESTIMATED)

    def settle(self, now: float) -> None:
        """Goodput: combine the limits, which come as separate histograms.

        Of n requests at least max(bad_i) and at most min(n, sum(bad_i)) missed some limit. The limits are
        compared over blocks of time, not since ever, so that yesterday's bad time to first token can't hide
        today's bad time per output token; a request that is in flight between two blocks may count twice.
        """
        counts, settled = self.counts, self.settled
        events = max(part.events for part in self.parts)
        counts.events = settled.events + events
        counts.strict = settled.strict + min(events, sum(part.strict for part in self.parts))
        counts.lenient = settled.lenient + max(part.lenient for part in self.parts)
        if not now < self.block_end:
            self.block_end = now + BLOCK
            self.settled = Counts(counts.events, counts.strict, counts.lenient)
            self.parts[:] = [Counts() for _ in self.parts]
