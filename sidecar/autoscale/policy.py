"""A ScaledObject's file as a policy: what scales the fleet, read from the very manifest that is deployed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import yaml

from sidecar.autoscale.hpa import DOWN, UP, Behaviour, Limit, Rules
from sidecar.autoscale.keda import Fallback, ScaledObject, Trigger

Over = Literal["sum", "avg", "max"]

#: A trigger of that name reads the router: requests in flight anywhere, those that it holds included.
ROUTER = "router"
#: What nobody can know: the replicas that the traffic of this moment needs.
PRESENT_LOAD = "present_load"
#: Signals of a replica that the loop can follow, by their names without the prefix.
FOLLOWED = (
    "replica_demand",
    "offered_load_requests",
    "queued_gpu_seconds",
    "requests_waiting",
    "requests_running",
    "kv_cache_usage_ratio",
    "kv_cache_usage_max_ratio",
    "queue_to_compute_ratio",
    "saturation_ratio",
    "gpu_utilization_ratio",
)
_NAME = re.compile(r"inference_(?:fleet_)?([a-z0-9_]+)")
_OVER = re.compile(r"\b(sum|avg|max)\b")


class PolicyError(Exception):
    """A policy that can't be used; the message says where and what would do."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A ScaledObject and how each of its triggers joins the replicas' values."""

    name: str
    spec: ScaledObject
    over: tuple[Over, ...]


def read_policies(path: Path) -> list[Policy]:
    """The ScaledObjects of a YAML file, in order. Raises PolicyError."""
    try:
        documents = list(yaml.safe_load_all(path.read_text("utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"{path}: it can't be read ({type(error).__name__})") from None
    except yaml.YAMLError as error:
        raise PolicyError(f"{path}: not YAML: {str(error).splitlines()[0]}") from None
    found = [one for one in documents if isinstance(one, Mapping) and one.get("kind") == "ScaledObject"]
    if not found:
        raise PolicyError(f"{path}: no ScaledObject in it (deploy/keda has examples)")
    try:
        return [_policy(one) for one in found]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PolicyError(f"{path}: {_said(error)}") from None


def _said(error: Exception) -> str:
    return f"the key {error} is missing" if isinstance(error, KeyError) else str(error)


def _policy(document: Mapping[str, Any]) -> Policy:
    spec = document["spec"]
    triggers = list(_triggers(spec["triggers"]))
    fallback = spec.get("fallback")
    advanced = spec.get("advanced") or {}
    behavior = (advanced.get("horizontalPodAutoscalerConfig") or {}).get("behavior")
    return Policy(
        str((document.get("metadata") or {}).get("name", "policy")),
        ScaledObject(
            tuple(trigger for trigger, _ in triggers),
            minimum=int(spec.get("minReplicaCount", 0)),
            maximum=int(spec.get("maxReplicaCount", 100)),
            polling=float(spec.get("pollingInterval", 30)),
            cooldown=float(spec.get("cooldownPeriod", 300)),
            initial_cooldown=float(spec.get("initialCooldownPeriod", 0)),
            fallback=None
            if fallback is None
            else Fallback(
                int(fallback["failureThreshold"]),
                int(fallback["replicas"]),
                fallback.get("behavior", "static"),
            ),
            behaviour=None
            if behavior is None
            else Behaviour(_rules(behavior.get("scaleUp"), UP), _rules(behavior.get("scaleDown"), DOWN)),
        ),
        tuple(over for _, over in triggers),
    )


def _rules(written: Mapping[str, Any] | None, default: Rules) -> Rules:
    if written is None:
        return default
    limits = tuple(
        Limit(one["type"], int(one["value"]), float(one["periodSeconds"]))
        for one in written.get("policies") or ()
    )
    return Rules(
        float(written.get("stabilizationWindowSeconds", default.stabilisation)),
        limits or default.limits,
        written.get("selectPolicy", "Max"),
    )


def _triggers(written: list[Mapping[str, Any]]) -> Iterator[tuple[Trigger, Over]]:
    for place, one in enumerate(written):
        metadata = one["metadata"]
        kind = one["type"]
        target, activation = _TARGETS.get(kind, ("", ""))
        if not target:
            raise ValueError(f"triggers[{place}]: {kind} can't be simulated, only {', '.join(_TARGETS)}")
        signal, over = _followed(place, one)
        yield (
            Trigger(
                signal,
                float(metadata.get(target, 1)),
                float(metadata.get(activation, 0)),
                one.get("metricType", "AverageValue"),
            ),
            over,
        )


#: Kind of a trigger → its keys for the target and for activation.
_TARGETS = {
    "prometheus": ("threshold", "activationThreshold"),
    "metrics-api": ("targetValue", "activationTargetValue"),
    "external": ("target", "activation"),
    "external-push": ("target", "activation"),
}


def _followed(place: int, trigger: Mapping[str, Any]) -> tuple[str, Over]:
    metadata = trigger["metadata"]
    if str(trigger.get("name", "")).startswith(ROUTER):
        return ROUTER, "sum"
    if trigger["type"] == "prometheus":
        text = str(metadata["query"])
        names = _NAME.findall(text)
        over = _OVER.search(text)
    elif trigger["type"] == "metrics-api":
        names = [str(metadata["url"]).partition("?")[0].rpartition("/")[2]]
        over = _OVER.match(str(metadata.get("aggregationType", "sum")).replace("average", "avg"))
    else:
        names = [str(metadata.get("signal", "replica_demand"))]
        over = None
    signal = names[0].removeprefix("inference_").removeprefix("fleet_") if names else ""
    if signal not in FOLLOWED:
        raise ValueError(
            f"triggers[{place}]: it reads {signal or 'no signal of the sidecar'}; the loop follows"
            f" {', '.join(FOLLOWED)}, and the router's requests in flight for a trigger named {ROUTER}"
        )
    return signal, cast(Over, over[1]) if over else "sum"
