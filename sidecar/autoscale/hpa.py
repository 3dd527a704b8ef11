"""The algorithm of Kubernetes' HorizontalPodAutoscaler, in simulated time.

As in pkg/controller/podautoscaler of Kubernetes 1.33: proposals of each metric, tolerance, pods that are not
ready, the largest proposal, no scale-in while a metric fails, stabilisation, policies. Numbers are compared
in thousandths, as the API's quantities are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Literal, Protocol

SYNC_SECONDS = 15.0
TOLERANCE = 0.1
_DEFAULT_DOWN_STABILISATION = 300.0
_LEGACY_FACTOR, _LEGACY_LEAST = 2.0, 4


@dataclass(frozen=True, slots=True)
class Pods:
    """The target as the controller sees it. `status` counts every pod that isn't ending, `ready` those that
    serve."""

    status: int
    ready: int


class Metric(Protocol):
    """One metric of the object; None stands for one that can't be had."""

    def replicas(self, current: int, pods: Pods, tolerance: float) -> int:
        """Its proposal."""
        ...


@dataclass(frozen=True, slots=True)
class AverageValue:
    """An external metric shared out among the pods: replicas = ⌈total ÷ target⌉."""

    total: float
    target: float

    def replicas(self, current: int, pods: Pods, tolerance: float) -> int:
        total, target = _milli(self.total), _milli(self.target)
        if pods.status and _within(total / (target * pods.status), tolerance):
            return pods.status
        return ceil(total / target)


@dataclass(frozen=True, slots=True)
class Value:
    """An external metric compared with its target: replicas = ⌈ready · value ÷ target⌉."""

    value: float
    target: float

    def replicas(self, current: int, pods: Pods, tolerance: float) -> int:
        ratio = _milli(self.value) / _milli(self.target)
        if current == 0:
            return ceil(ratio)
        if _within(ratio, tolerance):
            return current
        if pods.status == 0:
            raise NoMetricError("there is no pod")
        return ceil(ratio * pods.ready)


@dataclass(frozen=True, slots=True)
class PerPod:
    """A metric of each pod, averaged: pods that are not ready or whose value is missing damp the change."""

    values: Mapping[str, float]  # of ready pods
    target: float
    missing: int = 0
    unready: int = 0

    def replicas(self, current: int, pods: Pods, tolerance: float) -> int:
        if not self.values:
            raise NoMetricError("no pod has the metric")
        ratio = self._ratio(sum(map(_milli, self.values.values())), len(self.values))
        growing = self.unready > 0 and ratio > 1.0
        if not growing and not self.missing:
            return current if _within(ratio, tolerance) else ceil(ratio * len(self.values))
        total, count = sum(map(_milli, self.values.values())), len(self.values)
        if ratio < 1.0:
            total += self.missing * _milli(self.target)
            count += self.missing
        elif ratio > 1.0:
            count += self.missing
        if growing:
            count += self.unready
        damped = self._ratio(total, count)
        turned = (ratio < 1.0 < damped) or (damped < 1.0 < ratio)
        if _within(damped, tolerance) or turned:
            return current
        proposed = ceil(damped * count)
        against = (damped < 1.0 and proposed > current) or (damped > 1.0 and proposed < current)
        return current if against else proposed

    def _ratio(self, total: int, count: int) -> float:
        return (total // count) / _milli(self.target)


class NoMetricError(Exception):
    """A metric can't be had."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A policy: at most `value` pods, or per cent of them, in `seconds`."""

    kind: Literal["Pods", "Percent"]
    value: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Rules:
    """One direction of `behavior`."""

    stabilisation: float
    limits: tuple[Limit, ...]
    select: Literal["Max", "Min", "Disabled"] = "Max"


#: Defaults of autoscaling/v2 for a direction that `behavior` doesn't name.
UP = Rules(0.0, (Limit("Pods", 4, 15.0), Limit("Percent", 100, 15.0)))
DOWN = Rules(_DEFAULT_DOWN_STABILISATION, (Limit("Percent", 100, 15.0),))


@dataclass(frozen=True, slots=True)
class Behaviour:
    up: Rules = UP
    down: Rules = DOWN


@dataclass(slots=True)
class Hpa:
    """One HorizontalPodAutoscaler. `behaviour` None is an object without `behavior`."""

    minimum: int
    maximum: int
    behaviour: Behaviour | None = field(default_factory=Behaviour)
    tolerance: float = TOLERANCE
    recommendations: list[tuple[float, int]] = field(default_factory=list)
    ups: list[tuple[float, int]] = field(default_factory=list)
    downs: list[tuple[float, int]] = field(default_factory=list)

    def sync(self, now: float, current: int, pods: Pods, metrics: Sequence[Metric | None]) -> int:
        """The size to set at `now`, where the scale subresource says `current`. 0 pods are left alone."""
        if not self.recommendations:
            self.recommendations.append((now, current))
        if current == 0 and self.minimum != 0:
            return 0
        if current > self.maximum:
            desired = self.maximum
        elif current < self.minimum:
            desired = self.minimum
        else:
            proposed = self._proposal(current, pods, metrics)
            if proposed is None:
                return current
            if self.behaviour is None:
                desired = self._normalised(now, current, proposed)
            else:
                desired = self._behaved(self.behaviour, now, current, proposed)
        if desired > current:
            self.ups.append((now, desired - current))
        elif desired < current:
            self.downs.append((now, current - desired))
        return desired

    def _proposal(self, current: int, pods: Pods, metrics: Sequence[Metric | None]) -> int | None:
        """The largest proposal; None when there is none, or when some metric fails and it would scale in."""
        proposals, failed = [], False
        for metric in metrics:
            try:
                if metric is None:
                    raise NoMetricError
                proposals.append(metric.replicas(current, pods, self.tolerance))
            except NoMetricError:
                failed = True
        if not proposals or (failed and max(proposals) < current):
            return None
        return max(proposals)

    def _behaved(self, behaviour: Behaviour, now: float, current: int, proposed: int) -> int:
        stable = self._stable(behaviour.up, behaviour.down, now, current, proposed)
        if stable > current:
            return min(stable, self.maximum, max(self._most(behaviour.up, now, current), current))
        if stable < current:
            return max(stable, self.minimum, min(self._least(behaviour.down, now, current), current))
        return stable

    def _stable(self, up: Rules, down: Rules, now: float, current: int, proposed: int) -> int:
        """The size nearest to the present one that both windows allow. It remembers what was proposed."""
        lowest = highest = proposed
        for moment, size in self.recommendations:
            if moment > now - up.stabilisation:
                lowest = min(lowest, size)
            if moment > now - down.stabilisation:
                highest = max(highest, size)
        oldest = now - max(up.stabilisation, down.stabilisation)
        self.recommendations = [one for one in self.recommendations if one[0] >= oldest] + [(now, proposed)]
        return min(max(current, lowest), highest)

    def _most(self, rules: Rules, now: float, current: int) -> int:
        if rules.select == "Disabled":
            return current
        bounds = []
        for limit in rules.limits:
            before = self._before(now, limit.seconds, current)
            grown = before + limit.value if limit.kind == "Pods" else ceil(before * (1 + limit.value / 100))
            bounds.append(grown)
        return min(bounds) if rules.select == "Min" else max(bounds)

    def _least(self, rules: Rules, now: float, current: int) -> int:
        if rules.select == "Disabled":
            return current
        bounds = []
        for limit in rules.limits:
            before = self._before(now, limit.seconds, current)
            left = before - limit.value if limit.kind == "Pods" else int(before * (1 - limit.value / 100))
            bounds.append(left)
        return max(bounds) if rules.select == "Min" else min(bounds)

    def _before(self, now: float, seconds: float, current: int) -> int:
        """Replicas at the start of a policy's period."""
        added = sum(by for moment, by in self.ups if moment > now - seconds)
        removed = sum(by for moment, by in self.downs if moment > now - seconds)
        return current - added + removed

    def _normalised(self, now: float, current: int, proposed: int) -> int:
        """Without `behavior`: the controller's own stabilisation of scale-in and bound of scale-out."""
        self.recommendations = [
            one for one in self.recommendations if one[0] > now - _DEFAULT_DOWN_STABILISATION
        ] + [(now, proposed)]
        stable = max(size for _, size in self.recommendations)
        bound = int(max(_LEGACY_FACTOR * current, _LEGACY_LEAST))
        return max(min(stable, self.maximum, bound), self.minimum)


def _milli(value: float) -> int:
    return int(value * 1000 + 1e-6)


def _within(ratio: float, tolerance: float) -> bool:
    return 1.0 - tolerance <= ratio <= 1.0 + tolerance
