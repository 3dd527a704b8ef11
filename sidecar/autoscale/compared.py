"""The policies that the demand is compared with, under one HPA: only what they scale on differs."""

from __future__ import annotations

from sidecar.autoscale.hpa import Behaviour, Limit, Rules
from sidecar.autoscale.keda import Fallback, ScaledObject, Trigger
from sidecar.autoscale.policy import PRESENT_LOAD, Policy

#: As in deploy/keda: up by four a minute once half a minute has asked for it, down by one a minute after five
#: minutes. The half minute: while new replicas fill, the old ones still count what they hand over.
SHIPPED = Behaviour(
    Rules(30.0, (Limit("Pods", 4, 60.0),)),
    Rules(300.0, (Limit("Pods", 1, 60.0),)),
)
SLOWER = Behaviour(Rules(30.0, (Limit("Pods", 2, 60.0),)), SHIPPED.down)
DOUBLING = Behaviour(Rules(30.0, (Limit("Percent", 100, 60.0),)), SHIPPED.down)


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
DEMAND_SLOWER = policy("demand, 2 a minute", "replica_demand", 1.0, SLOWER)
#: The bound for whoever reacts: it knows the present load exactly, and meets the same cold start and HPA.
EXACT = policy("present load, exactly", PRESENT_LOAD, 0.9)
WAITING = policy("waiting requests, 5", "requests_waiting", 5.0)
KV_USAGE = policy("KV cache usage, 0.7", "kv_cache_usage_ratio", 0.7)
GPU = policy("GPU utilisation, 0.7", "gpu_utilization_ratio", 0.7)

COMPARED = (DEMAND, DEMAND_SLOWER, EXACT, WAITING, KV_USAGE, GPU)
