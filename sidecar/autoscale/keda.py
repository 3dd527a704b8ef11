"""What KEDA adds to the HPA: scaling between 0 and 1, and what happens when a trigger fails.

As in KEDA 2.20: the operator's loop (`poll`) activates and cools down, and holds the size while a trigger fails
(until 2.16 it set the fallback's at the first failure: kedacore/keda#6520); the metrics server (`metrics`)
answers the HPA, counts failures and puts the fallback's value in the place of one that fails. Releases that count
the loop's own failures too (kedacore/keda#7244) fall back sooner, from zero as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from sidecar.autoscale.hpa import AverageValue, Behaviour, Metric, Value

Behaviors = Literal["static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"]


@dataclass(frozen=True, slots=True)
class Fallback:
    failure_threshold: int
    replicas: int
    behavior: Behaviors = "static"


@dataclass(frozen=True, slots=True)
class Trigger:
    """`signal` is what it reads; more than `activation` of it wakes the target."""

    signal: str
    target: float
    activation: float = 0.0
    metric_type: Literal["AverageValue", "Value"] = "AverageValue"


@dataclass(frozen=True, slots=True)
class ScaledObject:
    """A ScaledObject, with KEDA's defaults."""

    triggers: tuple[Trigger, ...]
    minimum: int = 0
    maximum: int = 100
    polling: float = 30.0
    cooldown: float = 300.0
    initial_cooldown: float = 0.0
    fallback: Fallback | None = None
    behaviour: Behaviour | None = None


Readings = Sequence[float | None]
"""A value for each trigger; None where it fails."""


@dataclass(slots=True)
class Keda:
    """KEDA at work on one ScaledObject that was created at second 0."""

    spec: ScaledObject
    last_active: float | None = None
    failures: list[int] = field(default_factory=list)
    fell_back: bool = False

    def __post_init__(self) -> None:
        self.failures = [0] * len(self.spec.triggers)

    def poll(self, now: float, replicas: int, readings: Readings) -> int:
        """The operator's loop: the size to set."""
        spec = self.spec
        active = any(
            value is not None and value > trigger.activation
            for trigger, value in zip(spec.triggers, readings, strict=True)
        )
        failing = any(value is None for value in readings)
        if active:
            if replicas == 0 or not failing:
                self.last_active = now
            return max(1, spec.minimum) if replicas == 0 else replicas
        if failing and (spec.fallback is None or spec.fallback.replicas != 0):
            return replicas
        if replicas > 0 and spec.minimum == 0:
            return 0 if self._cooled(now) else replicas
        return max(replicas, spec.minimum)

    def metrics(self, readings: Readings, replicas: int, ready: int) -> list[Metric | None]:
        """The metrics server's answers to the HPA."""
        answers: list[Metric | None] = []
        self.fell_back = False
        for place, (trigger, value) in enumerate(zip(self.spec.triggers, readings, strict=True)):
            self.failures[place] = self.failures[place] + 1 if value is None else 0
            answers.append(self._answer(trigger, value, self.failures[place], replicas, ready))
        return answers

    def _answer(
        self, trigger: Trigger, value: float | None, failures: int, replicas: int, ready: int
    ) -> Metric | None:
        average = trigger.metric_type == "AverageValue"
        if value is not None:
            return AverageValue(value, trigger.target) if average else Value(value, trigger.target)
        fallback = self.spec.fallback
        if fallback is None or failures <= fallback.failure_threshold or not (average or ready):
            return None
        self.fell_back = True
        wanted = self._fallback_size(replicas) * trigger.target
        return AverageValue(wanted, trigger.target) if average else Value(wanted / ready, trigger.target)

    def _fallback_size(self, replicas: int) -> int:
        fallback = self.spec.fallback
        assert fallback is not None
        match fallback.behavior:
            case "currentReplicas":
                return replicas
            case "currentReplicasIfHigher":
                return max(replicas, fallback.replicas)
            case "currentReplicasIfLower":
                return min(replicas, fallback.replicas)
            case _:
                return fallback.replicas

    def _cooled(self, now: float) -> bool:
        if self.last_active is None:
            return now > self.spec.initial_cooldown
        return now > self.last_active + self.spec.cooldown
