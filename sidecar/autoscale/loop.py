"""The run: traffic through the fleet, its sidecars, the one who adds them up, KEDA and the HPA."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from statistics import fmean, median

from sidecar.autoscale.faults import Fault
from sidecar.autoscale.hpa import SYNC_SECONDS, Hpa, Pods
from sidecar.autoscale.keda import Keda
from sidecar.autoscale.objectives import USUAL, Objectives
from sidecar.autoscale.oracle import TAIL_SECONDS
from sidecar.autoscale.policy import PRESENT_LOAD, ROUTER, Over, Policy
from sidecar.autoscale.sidecars import Sidecar
from sidecar.autoscale.traffics import Scene
from sidecar.fleet.total import scaled_up
from sidecar.signals import Settings
from sidecar.simulator.fleet import Fleet
from sidecar.simulator.model import NS
from sidecar.simulator.replica import Replica
from sidecar.simulator.request import Request
from sidecar.simulator.simulation import Simulation

POLL_SECONDS = 2.0
#: How often whoever adds up reads the sidecars: Prometheus' scrapes, or the fleet role's.
READ_SECONDS = 5.0
MODEL = "simulated"


@dataclass(frozen=True, slots=True)
class Sample:
    """The fleet at one HPA sync."""

    second: float
    wanted: int
    ready: int
    waiting: int
    value: float | None  # of the first trigger


@dataclass(slots=True)
class Run:
    """What happened. `requests` are (second asked, good) in order of their end."""

    scene: Scene
    policy: Policy
    samples: list[Sample] = field(default_factory=list)
    requests: list[tuple[float, bool]] = field(default_factory=list)
    replica_seconds: float = 0.0
    lost: int = 0  # cut off by scale-ins
    unfinished: int = 0


@dataclass(frozen=True, slots=True)
class Tuning:
    """Settings of the sidecars that a run varies. `inherit` hands the fleet's service time and idle gap to
    newcomers, `slots` is what every config tells of its replica's size."""

    settings: Settings
    objectives: Objectives = USUAL
    inherit: bool = True
    slots: int | None = None


def tuning(objectives: Objectives = USUAL, **settings: object) -> Tuning:
    """The settings with the objective on gaps."""
    given = Settings(gap_objectives=(objectives.of_gaps,), **settings)  # type: ignore[arg-type]
    return Tuning(given, objectives)


def run(
    scene: Scene,
    policy: Policy,
    tuned: Tuning | None = None,
    *,
    seed: int = 1,
    progress: Callable[[float], None] | None = None,
) -> Run:
    """Play a scene under a policy. `progress` is told the seconds that are done."""
    return _Loop(scene, policy, tuned or tuning(), seed).play(progress)


class _Loop:
    def __init__(self, scene: Scene, policy: Policy, tuned: Tuning, seed: int) -> None:
        self.scene, self.policy, self.tuned = scene, policy, tuned
        spec = policy.spec
        start = min(max(scene.start, spec.minimum), spec.maximum)
        self.fleet = Fleet(scene.config(), start, router=scene.router())
        self.simulation = Simulation(self.fleet, scene.traffic(seed), keep=True)
        self.keda = Keda(spec)
        self.hpa = Hpa(max(spec.minimum, 1), spec.maximum, spec.behaviour)
        self.sidecars: dict[Replica, Sidecar] = {}
        self.readings: list[float | None] = [None] * len(spec.triggers)
        self.run = Run(scene, policy)
        self._begun: set[Fault] = set()
        self._service_time: float | None = None
        self._idle_gap: float | None = None
        self._stuck: Replica | None = None

    def play(self, progress: Callable[[float], None] | None) -> Run:
        scene, run = self.scene, self.run
        for second, due in _moments(scene.seconds, self.policy.spec.polling):
            self.simulation.advance(second)
            self._fail(second)
            if "sidecars" in due:
                self._poll_sidecars()
            if "read" in due:
                self.readings = self._read(second)
            if "keda" in due:
                self._set(self.keda.poll(second, self.fleet.wanted, self.readings))
            if "hpa" in due:
                self._sync(second)
                if progress is not None:
                    progress(second)
        run.replica_seconds = self.fleet.replica_seconds
        self.simulation.advance(scene.seconds + TAIL_SECONDS)
        run.unfinished = self.fleet.in_flight
        self._note(self.simulation.ended)
        run.lost = self.fleet.lost
        return run

    def _note(self, ended: list[Request]) -> None:
        kept = self.tuned.objectives.kept
        self.run.requests += [(one.asked_ns / NS, kept(one)) for one in ended]
        ended.clear()

    def _poll_sidecars(self) -> None:
        for replica in self.fleet.replicas:
            sidecar = self.sidecars.get(replica)
            if sidecar is None:
                sidecar = self.sidecars[replica] = self._sidecar()
            sidecar.read(replica)
        self.sidecars = {replica: self.sidecars[replica] for replica in self.fleet.replicas}
        self._note(self.simulation.ended)

    def _sidecar(self) -> Sidecar:
        """A newcomer's, with what the fleet knows."""
        settings = self.tuned.settings
        if self.tuned.inherit:
            settings = _with_seeds(settings, self._service_time, self._idle_gap)
        sidecar = Sidecar(settings, gaps=self.scene.gaps, slots=self.tuned.slots)
        sidecar.blind = any(fault.kind == "blind" and fault.share == 1.0 for fault in self._begun)
        return sidecar

    # What scales ----------------------------------------------------------------------------------

    def _read(self, second: float) -> list[float | None]:
        """The triggers' values now, None where whoever adds up is blind."""
        if any(fault.kind == "no_metrics" for fault in self._begun):
            return [None] * len(self.readings)
        ready = self.fleet.ready
        views = [self.sidecars[one].last for one in ready if one in self.sidecars]
        seen = [view for view in views if view is not None]
        self._service_time = _middle(seen, "service_time_seconds", self._service_time)
        self._idle_gap = _middle(seen, "idle_inter_token_latency_seconds", self._idle_gap)
        of_others = {ROUTER: float(self.fleet.in_flight), PRESENT_LOAD: self.scene.need_at(second)}
        return [
            of_others[trigger.signal]
            if trigger.signal in of_others
            else _joined([view[trigger.signal] for view in seen], len(ready), over)
            for trigger, over in zip(self.policy.spec.triggers, self.policy.over, strict=True)
        ]

    def _sync(self, second: float) -> None:
        fleet = self.fleet
        pods = Pods(sum(not one.draining for one in fleet.replicas), len(fleet.ready))
        metrics = self.keda.metrics(self.readings, fleet.wanted, pods.ready)
        self._set(self.hpa.sync(second, fleet.wanted, pods, metrics))
        waiting = sum(rank.waiting for one in fleet.ready for rank in one.ranks) + len(fleet.held)
        self.run.samples.append(Sample(second, fleet.wanted, len(fleet.ready), waiting, self.readings[0]))

    def _set(self, size: int) -> None:
        if size != self.fleet.wanted:
            self.fleet.scale(size)

    # Faults ---------------------------------------------------------------------------------------

    def _fail(self, second: float) -> None:
        for fault in self.scene.faults:
            if fault not in self._begun and fault.since <= second < fault.until:
                self._begun.add(fault)
                self._begin(fault)
            elif fault in self._begun and second >= fault.until:
                self._end(fault)

    def _begin(self, fault: Fault) -> None:
        ready = self.fleet.ready
        if fault.kind == "blind":
            for replica in ready[: round(fault.share * len(ready))]:
                self.sidecars[replica].blind = True
        elif fault.kind == "hang" and ready:
            self._stuck = ready[0]
            self._stuck.hang()

    def _end(self, fault: Fault) -> None:
        self._begun.discard(fault)
        if fault.kind == "blind":
            for sidecar in self.sidecars.values():
                sidecar.blind = False
        elif fault.kind == "hang" and self._stuck is not None:
            self.simulation.collect(self._stuck.restart())
            self.sidecars.pop(self._stuck, None)
            self._stuck = None


def _joined(values: list[float], ready: int, over: Over) -> float | None:
    """Replicas' values as one: a sum stands for those too that are ready and don't answer."""
    present = [value for value in values if not isnan(value)]
    if not present:
        return None
    if over == "avg":
        return fmean(present)
    return max(present) if over == "max" else scaled_up(sum(present), ready, len(present))


def _middle(views: Sequence[Mapping[str, float]], name: str, before: float | None) -> float | None:
    """The median of what replicas know; what was known before while none does."""
    known = [view[name] for view in views if not isnan(view[name])]
    return median(known) if known else before


def _with_seeds(settings: Settings, service_time: float | None, idle_gap: float | None) -> Settings:
    return replace(
        settings,
        service_time=settings.service_time if settings.service_time is not None else service_time,
        idle_gap=settings.idle_gap if settings.idle_gap is not None else idle_gap,
    )


def _moments(until: float, polling: float) -> Iterator[tuple[float, set[str]]]:
    """Moments in order with who acts there: sidecars, who reads them, KEDA, the HPA."""
    due: dict[float, set[str]] = {}
    for name, every in (
        ("sidecars", POLL_SECONDS),
        ("read", READ_SECONDS),
        ("keda", polling),
        ("hpa", SYNC_SECONDS),
    ):
        for place in range(1, int(until / every) + 1):
            due.setdefault(place * every, set()).add(name)
    for second in sorted(due):
        yield second, due[second]
