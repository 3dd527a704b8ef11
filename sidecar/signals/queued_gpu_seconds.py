"""Queued GPU-seconds: the GPU time that the queue stands for."""

from __future__ import annotations

from sidecar.signals.formula import Formula, Way

_NEEDS = ("queue_seconds_total", "service_time_seconds", "capacity_requests")

QUEUED_GPU_SECONDS = Formula(
    "queued_gpu_seconds",
    (
        Way((*_NEEDS, "gpu_info"), "waiting · service time over capacity · GPUs"),
        Way((*_NEEDS, "targets.capacity.gpus"), "waiting · service time over capacity · GPUs of the config"),
    ),
)


def queued_gpu_seconds(waiting: float, service_time: float, capacity: float, gpus: float) -> float:
    """waiting · W ÷ n* · GPUs: a GPU serves n* requests at once, so a request takes W ÷ n* of its time."""
    return waiting * service_time / capacity * gpus
