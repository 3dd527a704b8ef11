"""Replica demand: how many replicas the traffic of this one needs. The sum over replicas is the fleet's size."""

from __future__ import annotations

from sidecar.signals.capacity import KV_CACHE, NONE, OBSERVED, SLO, SLOTS
from sidecar.signals.formula import Formula, Way

_WAYS = (
    Way(
        ("offered_load_requests", "capacity_requests"),
        "(offered load + backlog) · stretch over capacity · utilisation",
    ),
)
REPLICA_DEMAND = Formula("replica_demand", _WAYS)
REPLICA_DEMAND_INFO = Formula("replica_demand_info", _WAYS)

IDLE, LOAD, BACKLOG, BY_SLO, NO_SERVICE_TIME, NO_CAPACITY = (
    "idle",
    "load",
    "backlog",
    "slo",
    "no_service_time",
    "no_capacity",
)
#: Every (limit, reason) that a decision can have.
DECISIONS: tuple[tuple[str, str], ...] = (
    *(
        (limit, reason)
        for limit in (SLOTS, KV_CACHE, OBSERVED, NONE)
        for reason in (IDLE, LOAD, BACKLOG, NO_SERVICE_TIME)
    ),
    *((SLO, reason) for reason in (IDLE, BY_SLO, NO_SERVICE_TIME)),
    (NONE, NO_CAPACITY),
)

_BACKLOG_CAP = 0.5  # of the load: a queue that grows through a cold start must not overshoot
_BACKLOG_TELLS = 0.1  # of the load: from here on the backlog is named as the reason


def backlog(waiting: float, service_time: float, load: float, drain_target: float) -> float:
    """Requests at once that work the queue off within the drain target, at most half of the load."""
    return min(waiting * service_time / drain_target, _BACKLOG_CAP * load)


def stretch(idle: float, slope: float, capacity: float, gap: float) -> float:
    """How much longer a request takes at capacity than now: the gap there over the gap now."""
    return (idle + slope * capacity) / gap


def replica_demand(
    load: float, backlog: float, stretch: float, capacity: float, target_utilisation: float
) -> float:
    """(L + backlog) · stretch ÷ (n* · utilisation)."""
    return (load + backlog) * stretch / (capacity * target_utilisation)


def reason(limit: str, load: float, backlog: float, *, timed: bool) -> str:
    """Which term decided; `timed` says whether a service time is known."""
    if load + backlog <= 0.0:
        return IDLE
    if not timed:
        return NO_SERVICE_TIME
    if limit == SLO:
        return BY_SLO
    return BACKLOG if backlog > _BACKLOG_TELLS * load else LOAD
