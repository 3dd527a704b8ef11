"""A publication as the page's compact JSON: problems, three answers a target, tables, the newest points."""

from __future__ import annotations

from collections.abc import Mapping

from sidecar import __version__
from sidecar.outputs.signals_json import Json, age
from sidecar.outputs.web.fleet import fleet
from sidecar.outputs.web.numbers import first, numbers, some, total
from sidecar.outputs.web.objectives import objectives
from sidecar.outputs.web.problems import problems
from sidecar.outputs.web.trail import Trail
from sidecar.outputs.web.verdict import cause, outlook, users
from sidecar.schema import STARTUP_PHASES
from sidecar.snapshot import Block, Publication, Snapshot


def view(publication: Publication, trails: Mapping[str, Trail], now: float) -> Json:
    """What the page shows at `now` (Unix time); the same for all viewers."""
    return {
        "time": round(now, 3),
        "version": __version__,
        "problems": [problem.json() for problem in problems(publication, trails)],
        "targets": [
            _target(snapshot, trails.get(snapshot.target) or Trail(), now)
            for snapshot in publication.snapshots
        ],
        "gpus": gpus(publication.shared),
        "fleet": fleet(publication.shared),
    }


def _target(snapshot: Snapshot, trail: Trail, now: float) -> Json:
    life = (snapshot.life,)
    info = next((labels for labels, _ in numbers(life, "runtime_info")), {})
    models = {
        labels["model_name"]: labels for labels, _ in numbers(life, "model_info") if "model_name" in labels
    }
    for series in snapshot.data.layout.series:
        if name := series.label("model_name"):
            models.setdefault(name, {})
    return {
        "name": snapshot.target,
        "runtime": snapshot.runtime,
        "version": info.get("version", ""),
        "engine": " ".join(part for part in (info.get("engine"), info.get("engine_version")) if part),
        "models": list(models),
        "up": snapshot.up,
        "health": _health(snapshot),
        "age": age(snapshot, now),
        "restarts": some(first(life, "target_restarts_total")),
        "started": some_time(first(life, "target_start_timestamp_seconds")),
        "startup": {
            phase: value
            for phase in STARTUP_PHASES
            for labels, seconds in numbers(life, "startup_phase_seconds")
            if labels.get("phase") == phase and (value := some(seconds)) is not None
        },
        "users": users(snapshot, trail).json(),
        "cause": cause(snapshot, trail).json(),
        "outlook": outlook(snapshot).json(),
        "now": _now(snapshot, trail),
        "point": trail.ring.last(),
        "latency": trail.latency,
        "slos": _slos(snapshot),
        "scaling": _scaling(snapshot),
        "scrapes": [
            [round(scrape.time, 2), some(scrape.took), scrape.result, scrape.detail]
            for scrape in reversed(trail.scrapes)
        ],
    }


def _health(snapshot: Snapshot) -> str:
    """One word: down, unknown, wedged, not ready, up."""
    if not snapshot.up:
        return "down"
    if not snapshot.runtime:
        return "unknown"
    if first((snapshot.life,), "target_wedged") == 1:
        return "wedged"
    return "not ready" if first((snapshot.life,), "target_ready") == 0 else "up"


def _now(snapshot: Snapshot, trail: Trail) -> Json:
    """Headline numbers; rates are of the last minute."""
    return {
        "slots": some(total((snapshot.data,), "request_slots")),
        "requests": some(trail.rate("requests_total")),
        "errors": some(trail.rate("errors")),
        "generated": some(trail.rate("generation_tokens_total")),
        "prompted": some(trail.rate("prompt_tokens_total")),
        "preempted": some(trail.rate("preemptions_total")),
    }


def _slos(snapshot: Snapshot) -> list[Json]:
    return [
        {
            "slo": row.slo,
            "model": row.model,
            "promise": row.promise,
            "signal": row.signal,
            "period": row.period,
            "status": row.status,
            "events": some(row.events),
            "bad": some(row.bad),
            "budget": some(row.budget),
            "gone_in": some(row.gone_in),
            "burn": {window: some(rate) for window, rate in row.burn.items()},
        }
        for row in objectives(snapshot)
    ]


def _scaling(snapshot: Snapshot) -> list[Json]:
    """The autoscaling signal of each model: demand, and why."""
    found: dict[str, Json] = {}

    def of(labels: dict[str, str]) -> Json:
        return found.setdefault(labels.get("model_name", ""), {"capacity": {}, "saturation": {}})

    for name, key in (
        ("replica_demand", "demand"),
        ("offered_load_requests", "load"),
        ("queue_to_compute_ratio", "queue_to_compute"),
        ("queued_gpu_seconds", "queued_gpu_seconds"),
    ):
        for labels, value in numbers(snapshot.extra, name):
            of(labels).setdefault(key, some(value))
    for labels, value in numbers(snapshot.extra, "capacity_requests"):
        of(labels)["capacity"][labels.get("limit", "")] = some(value)
    for labels, value in numbers(snapshot.extra, "saturation_ratio"):
        of(labels)["saturation"][labels.get("resource", "")] = some(value)
    for labels, _ in numbers(snapshot.extra, "replica_demand_info"):
        of(labels).update(limit=labels.get("limit", ""), reason=labels.get("reason", ""))
    return [{"model": model, **row} for model, row in found.items()]


def gpus(shared: tuple[Block, ...]) -> list[Json]:
    """One row a board, and one a MIG leaf that is measured by itself."""
    found: dict[tuple[str, str], Json] = {}

    def of(labels: dict[str, str]) -> Json:
        uuid, leaf = labels.get("gpu_uuid", ""), labels.get("gpu_instance", "")
        return found.setdefault((uuid, leaf), {"uuid": uuid, "leaf": leaf, "owners": [], "limited": []})

    for labels, _ in numbers(shared, "gpu_info"):
        of(labels).update(index=labels.get("index", ""), name=labels.get("name", ""))
    for name, key in (
        ("gpu_up", "up"),
        ("gpu_utilization_ratio", "busy"),
        ("gpu_sm_active_ratio", "sm"),
        ("gpu_memory_used_bytes", "used"),
        ("gpu_memory_total_bytes", "total"),
        ("gpu_power_watts", "power"),
        ("gpu_power_limit_watts", "limit"),
    ):
        for labels, value in numbers(shared, name):
            of(labels)[key] = some(value)
    for labels, value in numbers(shared, "gpu_temperature_celsius"):
        if labels.get("sensor") == "gpu":
            of(labels)["celsius"] = some(value)
    for labels, value in numbers(shared, "gpu_clock_limited"):
        if value == 1 and labels.get("reason") != "idle":
            of(labels)["limited"].append(labels.get("reason", ""))
    for labels, _ in numbers(shared, "gpu_allocation_info"):
        owner = labels.get("target") or "/".join(
            part for part in (labels.get("namespace"), labels.get("pod")) if part
        )
        if owner:
            of(labels)["owners"].append(owner)
    return list(found.values())


def some_time(value: float) -> float | None:
    """A Unix time to the tenth of a second."""
    return None if value - value != 0.0 else round(value, 1)
