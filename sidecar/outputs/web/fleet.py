"""What the page of the fleet role shows: who is there, and what each model's replicas need together."""

from __future__ import annotations

from sidecar.outputs.signals_json import Json
from sidecar.outputs.web.numbers import first, numbers, some
from sidecar.snapshot import Block

_OF_MODELS = {
    "demand": "fleet_replica_demand",
    "load": "fleet_offered_load_requests",
    "running": "fleet_requests_running",
    "waiting": "fleet_requests_waiting",
    "capacity": "fleet_capacity_requests",
    "service_time": "fleet_service_time_seconds",
    "queue_to_compute": "fleet_queue_to_compute_ratio",
    "kv": "fleet_kv_cache_usage_ratio",
}


def fleet(shared: tuple[Block, ...]) -> Json | None:
    """None in a sidecar: only the fleet role tells of replicas."""
    replicas = replicas_of(shared)
    if not replicas:
        return None
    return {
        **{state: some(count) for state, count in replicas.items()},
        "listing": some(first(shared, "fleet_discovery_success")),
        "router": some(first(shared, "fleet_router_up")),
        "at_router": some(first(shared, "fleet_router_in_flight_requests")),
        "models": _models(shared),
    }


def replicas_of(shared: tuple[Block, ...]) -> dict[str, float]:
    """State → how many: listed, ready, answering. Empty where this is no fleet role."""
    return {labels["state"]: count for labels, count in numbers(shared, "fleet_replicas")}


def _models(shared: tuple[Block, ...]) -> list[Json]:
    found: dict[str, Json] = {}

    def of(labels: dict[str, str]) -> Json:
        return found.setdefault(labels.get("model_name", ""), {"decided": []})

    for key, signal in _OF_MODELS.items():
        for labels, value in numbers(shared, signal):
            of(labels)[key] = some(value)
    for labels, count in numbers(shared, "fleet_decided_replicas"):
        of(labels)["decided"].append([labels["reason"], labels["limit"], some(count)])
    return [{"model": model, **row} for model, row in sorted(found.items())]
