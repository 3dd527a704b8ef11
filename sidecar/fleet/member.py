"""One sidecar of the fleet: its last page, and what can be said of its replicas, one a target."""

from __future__ import annotations

from collections import Counter
from math import isnan
from typing import Literal

from sidecar.fleet.page import Key, SidecarPage
from sidecar.pipeline.replicas import MEND, REASON

State = Literal["starting", "serving", "blind"]
#: Why a target isn't heard though its sidecar is.
CONFLICT = f"{REASON}: {MEND}"
MUTE = "up, and nothing is told of its load: its sidecar's page says why"
DOWN = "down: its sidecar's page says why"


class Member:
    """A listed address. `vouched`: whoever lists it says that it is ready, as a headless service does."""

    def __init__(self, address: str, *, vouched: bool) -> None:
        self.address = address
        self.vouched = vouched
        self.error = ""  # class of the last failure, empty after a success
        self.detail = ""
        self.read_at: float | None = None  # when a page was last understood
        self._page = SidecarPage()
        self._silent: dict[str, str] = {}  # blind target → why the last page says nothing of it
        self._conflicts: frozenset[str] = frozenset()  # targets that say nothing, as several replicas answer
        self._targets: dict[str, State] = {}  # as of the last page
        self._served: frozenset[tuple[str, str]] = frozenset()  # (target, model) that were seen at work
        self._expected: Counter[str] = Counter()  # model → replicas that are taken to serve it
        self._counts: dict[str, dict[Key, float]] = {}  # target → the last of each, also while it tells none
        self._told: frozenset[str] = frozenset()  # targets that told of their work on the last page

    def read(self, body: bytes, now: float) -> dict[Key, float]:
        """Take a page; returns what the counters grew by since they were last told, 0 at first. Raises
        PageError."""
        self._page.read(body)
        self.read_at, self.error, self.detail = now, "", ""
        self._served |= self._page.plan.models
        self._judge()
        return self._grown()

    def _judge(self) -> None:
        """Each target as if it had a sidecar of its own."""
        plan, values = self._page.plan, self._page.values
        telling = {target for target, _ in plan.models}
        known = {target for target, _ in self._served}
        up = {target: values[place] == 1.0 for place, target in plan.up}
        self._conflicts = frozenset(one for one in plan.conflicts - telling if up.get(one))
        self._targets = {}
        for target, is_up in up.items():
            if is_up and target in telling:
                self._targets[target] = "serving"
            elif target in self._conflicts or (target in known and (is_up or self.vouched)):
                self._targets[target] = "blind"
            else:
                self._targets[target] = "starting"
        self._silent = {
            target: CONFLICT if target in self._conflicts else MUTE if up[target] else DOWN
            for target, state in self._targets.items()
            if state == "blind"
        }
        there = {target for target, state in self._targets.items() if state != "starting"}
        self._expected = Counter(model for target, model in self._served if not there or target in there)
        # Of a conflict from the first page on nobody knows the model: taken for one that its sidecar tells of.
        unknown = len(there - known)
        for model in self._expected:
            self._expected[model] += unknown

    def _grown(self) -> dict[Key, float]:
        """By target, so that one which is silent for a while takes nothing from the others, and adds what it
        did meanwhile once it is back."""
        plan, values = self._page.plan, self._page.values
        counts: dict[str, dict[Key, float]] = {}
        for place, target, key in plan.counted:
            of = counts.setdefault(target, {})
            of[key] = of.get(key, 0.0) + values[place]
        grown: dict[Key, float] = {}
        for target, now in counts.items():
            before = self._counts.setdefault(target, {})
            for key, value in now.items():
                # What a target that was at work begins to count, it counts from 0; else it was met in mid-life.
                was = before.get(key, 0.0 if target in self._told else value)
                grown[key] = grown.get(key, 0.0) + _increase(was, value)
            before.update(now)
        for target in self._conflicts:  # the replica that is left has counts of its own
            self._counts[target] = counts.get(target, {})
        self._told = plan.told
        return grown

    def failed(self, error: str, detail: str) -> None:
        self.error, self.detail = error, detail

    def fresh(self, now: float, stale_after: float) -> bool:
        return self.read_at is not None and now - self.read_at <= stale_after

    def state(self, now: float, stale_after: float) -> State:
        """`serving`: numbers of any of its targets count. `blind`: it is taken to serve and nobody sees how much.
        `starting`: no replica yet."""
        states = self.targets(now, stale_after).values()
        if "serving" in states:
            return "serving"
        served = self._served and not self.fresh(now, stale_after)
        return "blind" if self.vouched or "blind" in states or served else "starting"

    def targets(self, now: float, stale_after: float) -> dict[str, State]:
        """Its targets, each with its own state; none before its first page."""
        if self.fresh(now, stale_after):
            return self._targets
        return {target: "starting" if one == "starting" else "blind" for target, one in self._targets.items()}

    def why_silent(self, target: str, now: float, stale_after: float) -> str:
        """Why a target isn't heard though its sidecar is; empty where that says nothing."""
        return self._silent.get(target, "") if self.fresh(now, stale_after) else ""

    def expected(self, model: str) -> int:
        """Replicas of that model behind it; one, or one a target, where nothing was ever seen."""
        if not self._expected:
            return max(1, len(self._conflicts))
        return self._expected[model]

    def summed(self) -> list[tuple[Key, float]]:
        values, targets = self._page.values, self._targets
        return [
            (key, values[place])
            for place, target, key in self._page.plan.summed
            if targets.get(target) == "serving"
        ]

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


def _increase(before: float, after: float) -> float:
    """A counter that fell has begun anew."""
    return after - before if after >= before else after
