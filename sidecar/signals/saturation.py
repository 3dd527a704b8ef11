"""Saturation: how much of each resource is used. GPU utilisation is evidence, not a resource's limit."""

from __future__ import annotations

from math import nan

from sidecar.signals.formula import Formula, Way

#: What each resource is told by.
RESOURCE_NEEDS: dict[str, frozenset[str]] = {
    "slots": frozenset({"request_slots", "compute_seconds_total"}),
    "kv_cache": frozenset({"kv_cache_usage_max_ratio"}),
    "queue": frozenset({"queue_seconds_total", "capacity_requests"}),
    "gpu_memory": frozenset({"gpu_memory_used_bytes", "gpu_memory_total_bytes"}),
    "max": frozenset(),
}
RESOURCES = tuple(RESOURCE_NEEDS)

SATURATION = Formula(
    "saturation_ratio",
    (
        Way(("request_slots", "compute_seconds_total"), "running over slots, and the other resources"),
        Way(("kv_cache_usage_max_ratio",), "KV cache usage, and the other resources"),
        Way(("queue_seconds_total", "capacity_requests"), "waiting over capacity"),
        Way(("gpu_memory_used_bytes", "gpu_memory_total_bytes"), "memory of the fullest GPU"),
    ),
)


def saturation(
    running: float, slots: float, kv_usage: float, waiting: float, capacity: float, gpu_memory: float
) -> tuple[float, float, float, float, float]:
    """In the order of RESOURCES; NaN for what isn't known, in and out.

    The memory of a GPU counts for the maximum only where no KV usage is known: an engine with a KV cache
    takes its memory when it starts and keeps it.
    """
    of_slots, of_queue = running / slots, waiting / capacity
    counting = (of_slots, kv_usage, of_queue, gpu_memory if kv_usage != kv_usage else nan)
    return of_slots, kv_usage, of_queue, gpu_memory, max([one for one in counting if one == one], default=nan)
