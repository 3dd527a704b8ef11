"""What the report compares: the policies under one HPA, so that only what they scale on differs; and what was
done about weak points."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sidecar.autoscale.hpa import Behaviour, Limit, Rules
from sidecar.autoscale.keda import Fallback, ScaledObject, Trigger
from sidecar.autoscale.loop import Tuning, tuning
from sidecar.autoscale.objectives import USUAL
from sidecar.autoscale.policy import PRESENT_LOAD, Policy
from sidecar.autoscale.traffics import DESIGNED, FAULTY, HELD_BACK, Scene

#: As in deploy/keda: up by four or a half more each minute once half a minute has asked for it, down by one or a
#: quarter a minute after ten. The half minute: while new replicas fill, the old ones still count what they hand
#: over. The ten: the fleet of a burst is still there for the next.
SHIPPED = Behaviour(
    Rules(30.0, (Limit("Pods", 4, 60.0), Limit("Percent", 50, 60.0))),
    Rules(600.0, (Limit("Pods", 1, 60.0), Limit("Percent", 25, 60.0))),
)
SLOWER = replace(SHIPPED, up=Rules(30.0, (Limit("Pods", 2, 60.0),)))
DOUBLING = replace(SHIPPED, up=Rules(30.0, (Limit("Pods", 4, 60.0), Limit("Percent", 100, 60.0))))
SOONER = replace(SHIPPED, down=replace(SHIPPED.down, stabilisation=300.0))


def policy(
    name: str, signal: str, target: float, behaviour: Behaviour = SHIPPED, *, maximum: int = 16
) -> Policy:
    """One trigger on the sum over the replicas, one replica at least."""
    spec = ScaledObject(
        (Trigger(signal, target),),
        minimum=1,
        maximum=maximum,
        polling=5.0,
        fallback=Fallback(6, 2, "currentReplicasIfHigher"),
        behaviour=behaviour,
    )
    return Policy(name, spec, ("sum",))


DEMAND = policy("replica demand", "replica_demand", 1.0)
DEMAND_SLOWER = policy("up by 2 a minute", "replica_demand", 1.0, SLOWER)
DEMAND_SOONER = policy("down after 5 min", "replica_demand", 1.0, SOONER)
#: The bound for whoever reacts: it knows the present load exactly, and meets the same cold start and HPA.
EXACT = policy("present load, exactly", PRESENT_LOAD, 0.9)
WAITING = policy("waiting requests, 5", "requests_waiting", 5.0)
KV_USAGE = policy("KV cache usage, 0.7", "kv_cache_usage_ratio", 0.7)
GPU = policy("GPU utilisation, 0.7", "gpu_utilization_ratio", 0.7)


@dataclass(frozen=True, slots=True)
class Column:
    """A policy, and the sidecars' settings under it."""

    name: str
    policy: Policy
    tuned: Tuning = field(default_factory=tuning)


@dataclass(frozen=True, slots=True)
class Section:
    """Scenes, each in each column."""

    title: str
    scenes: tuple[Scene, ...]
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A scene before and after something was done about a weak point."""

    weak: str
    scene: str
    before: Column
    after: Column


_USUAL = Column("replica demand", DEMAND)
_OURS = (
    _USUAL,
    Column("utilisation 0.8", DEMAND, tuning(target_utilisation=0.8)),
    Column("down after 5 min", DEMAND_SOONER),
    Column("up by 2 a minute", DEMAND_SLOWER),
)
_OTHERS = (
    Column("present load, exactly", EXACT),
    Column("waiting requests, 5", WAITING),
    Column("KV cache usage, 0.7", KV_USAGE),
    Column("GPU utilisation, 0.7", GPU),
)
SECTIONS = (
    Section("The traffics that the signal was designed on, two hours each", DESIGNED, (*_OURS, *_OTHERS)),
    Section("Held back: nothing was tuned on these; an hour each", HELD_BACK, (*_OURS, *_OTHERS)),
    Section("Faults", FAULTY, (_USUAL,)),
)


def _with(name: str, **settings: float) -> Column:
    return Column(name, DEMAND, tuning(USUAL, **settings))


def _up(name: str, behaviour: Behaviour) -> Column:
    return Column(name, policy(name, "replica_demand", 1.0, behaviour, maximum=64))


def _falling_back(replicas: int) -> Column:
    fallback = Fallback(6, replicas, "currentReplicasIfHigher")
    return Column(
        f"fallback.replicas: {replicas}", replace(DEMAND, spec=replace(DEMAND.spec, fallback=fallback))
    )


_DEFAULTS = Column("utilisation 0.9", DEMAND)
_MORE_ROOM = _with("utilisation 0.7", target_utilisation=0.7)
_WITH_ROOM = _with("utilisation 0.8", target_utilisation=0.8)
_PROBED = _with("seed 8.1 ms, by a light probe", idle_gap=0.0081)
_NO_STRETCH = _with("no gaps, no stretch", gaps_from_tokens=False)
_FROM_TOKENS = Column("gaps from what runs and tokens", DEMAND)
CHANGES = (
    Change("runtime without gaps", "no-gaps", _NO_STRETCH, _FROM_TOKENS),
    Change("runtime without gaps", "no-gaps-daily", _NO_STRETCH, _FROM_TOKENS),
    Change("idle gap 40 % too low", "step", _with("seed 4.9 ms", idle_gap=0.0049), _PROBED),
    Change("idle gap 50 % too high", "step", _with("seed 12.2 ms", idle_gap=0.0122), _PROBED),
    Change(
        "slots not told",
        "slots-bound",
        Column("learnt from a queue", DEMAND),
        Column("targets.capacity.slots: 24", DEMAND, replace(tuning(), slots=24)),
    ),
    Change("metrics away through a step", "prometheus-down", _falling_back(2), _falling_back(8)),
    Change("long prefill chunks", "long-chunks", _DEFAULTS, _MORE_ROOM),
    Change("prompts of very different length", "long-context", _DEFAULTS, _WITH_ROOM),
    Change("clients that leave", "impatient", _DEFAULTS, _MORE_ROOM),
    Change(
        "8 to 24 replicas at once",
        "large",
        _up("a half more each minute", SHIPPED),
        _up("doubling each minute", DOUBLING),
    ),
)
