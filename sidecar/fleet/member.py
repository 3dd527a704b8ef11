"""One sidecar of the fleet: its last page, and what can be said of its replicas."""

from __future__ import annotations

from math import isnan
from typing import Literal

from sidecar.fleet.page import Key, SidecarPage

State = Literal["starting", "serving", "blind"]


class Member:
    """A listed address. `vouched`: whoever lists it says that it is ready, as a headless service does."""

    def __init__(self, address: str, *, vouched: bool) -> None:
        self.address = address
        self.vouched = vouched
        self.error = ""  # class of the last failure, empty after a success
        self.detail = ""
        self.read_at: float | None = None  # when a page was last understood
        self.counters: dict[Key, float] = {}
        self._page = SidecarPage()
        self._served: frozenset[tuple[str, str]] = frozenset()  # (target, model) that were seen at work

    def read(self, body: bytes, now: float) -> dict[Key, float]:
        """Take a page; returns what the counters grew by since the page before, 0 at first. Raises PageError."""
        self._page.read(body)
        first = self.read_at is None
        self.read_at, self.error, self.detail = now, "", ""
        values = self._page.values
        self._served |= self._page.plan.models
        counters: dict[Key, float] = {}
        for place, key in self._page.plan.counted:
            counters[key] = counters.get(key, 0.0) + values[place]
        before, self.counters = self.counters, counters
        if first:
            return dict.fromkeys(counters, 0.0)
        return {key: _grown(before.get(key, 0.0), value) for key, value in counters.items()}

    def failed(self, error: str, detail: str) -> None:
        self.error, self.detail = error, detail

    def fresh(self, now: float, stale_after: float) -> bool:
        return self.read_at is not None and now - self.read_at <= stale_after

    def state(self, now: float, stale_after: float) -> State:
        """`serving`: its numbers count. `blind`: it is taken to serve and nobody sees how much. `starting`: no
        replica yet."""
        if not self.fresh(now, stale_after):
            return "blind" if self.vouched or self._served else "starting"
        values = self._page.values
        if any(values[place] == 1.0 for place, _ in self._page.plan.up) and self._page.plan.summed:
            return "serving"
        return "blind" if self.vouched else "starting"

    def expected(self, model: str) -> int:
        """Replicas of that model behind it; one where nothing was ever seen."""
        if not self._served:
            return 1
        return sum(name == model for _, name in self._served)

    def summed(self) -> list[tuple[Key, float]]:
        values = self._page.values
        return [(key, values[place]) for place, _, key in self._page.plan.summed]

    def highest(self) -> list[tuple[Key, float]]:
        values = self._page.values
        return [(key, values[place]) for place, key in self._page.plan.highest]

    def decided(self) -> list[Key]:
        """What limits each of its replicas, and why."""
        values = self._page.values
        return [key for place, key in self._page.plan.decided if values[place] == 1.0]

    def own(self) -> dict[tuple[str, str], dict[str, float]]:
        """(target, model) → its own figures; of several limits of the capacity the smallest."""
        found: dict[tuple[str, str], dict[str, float]] = {}
        values = self._page.values
        for place, target, (signal, model, _) in self._page.plan.own:
            value = values[place]
            if not isnan(value):
                figures = found.setdefault((target, model), {})
                figures[signal] = min(value, figures.get(signal, value))
        return found


def _grown(before: float, after: float) -> float:
    """A counter that fell has begun anew."""
    return after - before if after >= before else after
