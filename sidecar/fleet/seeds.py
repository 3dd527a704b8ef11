"""What the fleet hands to a newcomer: service time and idle gap of replicas like it, from `/v1/seeds`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isfinite

PATH = "/v1/seeds"


@dataclass(frozen=True, slots=True)
class Seeds:
    """Seconds; None where the fleet knows nothing."""

    service_time: float | None = None
    idle_gap: float | None = None


def read_seeds(body: bytes, model: str = "") -> Seeds:
    """The seeds of a model, or of the only one. Raises ValueError for anything but the fleet's answer."""
    told = json.loads(body)
    if not isinstance(told, dict) or not all(isinstance(one, dict) for one in told.values()):
        raise ValueError("not the seeds of a fleet")
    if model not in told:
        if model or len(told) != 1:
            return Seeds()
        (model,) = told
    return Seeds(
        _positive(told[model].get("service_time_seconds")),
        _positive(told[model].get("idle_inter_token_latency_seconds")),
    )


def _positive(value: object) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value > 0
    return float(value) if usable else None  # type: ignore[arg-type]
