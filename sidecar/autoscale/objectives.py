"""What a request must keep: both objectives of the experiment, as a client sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sidecar.signals import GapObjective
from sidecar.simulator.request import FINISHED, Outcome, Request

GOAL = 0.95  # share of the requests inside the objectives that counts as keeping them


@dataclass(frozen=True, slots=True)
class Objectives:
    """A request is good when its first token came within `first_token` seconds and no more than `budget` of its
    gaps were longer than `gap`."""

    first_token: float = 1.5
    gap: float = 0.05
    budget: float = 0.05

    def kept(self, request: Request) -> bool:
        """Of a client that left nothing more is known than whether it had to wait for its first token."""
        if request.outcome is Outcome.CANCELLED:
            return request.first_token_ns >= 0 and request.client_first_token_seconds <= self.first_token
        if request.outcome not in FINISHED or request.outcome is Outcome.ERROR:
            return False
        slow = request.slow_gaps > self.budget * max(request.generated - 1, 1)
        return request.client_first_token_seconds <= self.first_token and not slow

    @property
    def of_gaps(self) -> GapObjective:
        return GapObjective(self.gap, self.budget)


USUAL = Objectives()


def shares(requests: Sequence[tuple[float, bool]], seconds: float, bucket: float) -> list[float | None]:
    """Share of good ones by the time at which they were asked; None where nobody asked. `requests` are (second
    asked, good)."""
    places = int(seconds / bucket)
    asked, good = [0] * places, [0] * places
    for second, kept in requests:
        place = int(second / bucket)
        if place < places:
            asked[place] += 1
            good[place] += kept
    return [g / a if a else None for g, a in zip(good, asked, strict=True)]
