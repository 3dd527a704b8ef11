"""What Triton's model repository says: which models are ready, which are ensembles, which stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MAX_REASON = 160


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The part of `/v2/models/NAME/config` that decides what the model's numbers mean.

    `slots` is how many requests execute at once, None where the config doesn't tell (ensembles, engines).
    `inputs` are the names that a request may have; `text` says that one of them is a prompt and the answer has a
    text, by the names that every backend for language models gives them.
    """

    name: str
    backend: str = ""
    ensemble: bool = False
    decoupled: bool = False
    steps: tuple[str, ...] = ()
    slots: int | None = None
    inputs: frozenset[str] = frozenset()
    text: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """`/v2/repository/index`: names of ready models, and of the others with state and reason."""

    ready: frozenset[str]
    others: tuple[tuple[str, str], ...] = ()


def read_config(body: Any) -> ModelConfig | None:
    """None when the body isn't a model's config."""
    if not isinstance(body, dict) or not isinstance(body.get("name"), str):
        return None
    backend = str(body.get("backend") or body.get("platform") or "")
    policy = body.get("model_transaction_policy")
    decoupled = isinstance(policy, dict) and bool(policy.get("decoupled"))
    ensemble = body.get("platform") == "ensemble" or "ensemble_scheduling" in body
    scheduling = body.get("ensemble_scheduling")
    steps = scheduling.get("step") if isinstance(scheduling, dict) else None
    inputs, outputs = _tensors(body.get("input")), _tensors(body.get("output"))
    return ModelConfig(
        name=body["name"],
        backend=backend,
        ensemble=ensemble,
        decoupled=decoupled,
        steps=tuple(str(step.get("model_name")) for step in steps or () if isinstance(step, dict)),
        slots=None if ensemble or decoupled else _slots(body),
        inputs=frozenset(inputs),
        text=inputs.get("text_input") == outputs.get("text_output") == "TYPE_STRING",
    )


def _tensors(listed: Any) -> dict[str, str]:
    """Names of inputs or outputs, with their types."""
    if not isinstance(listed, list):
        return {}
    return {str(one.get("name")): str(one.get("data_type")) for one in listed if isinstance(one, dict)}


def _slots(body: dict[str, Any]) -> int | None:
    """Instances × requests that one of them batches: without a batcher an instance takes one at a time."""
    groups = body.get("instance_group")
    if not isinstance(groups, list):
        return None
    instances = 0
    for group in groups:
        if isinstance(group, dict) and isinstance(group.get("count"), int):
            gpus = group.get("gpus")
            instances += group["count"] * max(1, len(gpus) if isinstance(gpus, list) else 1)
    batches = "dynamic_batching" in body or "sequence_batching" in body
    size = body.get("max_batch_size")
    return instances * (max(size, 1) if batches and isinstance(size, int) else 1) or None


def read_index(body: Any) -> Index | None:
    """None when the body isn't a repository index: even a server without models names what it could load."""
    if not isinstance(body, list) or not body:
        return None
    states: dict[str, list[tuple[str, str]]] = {}
    for row in body:
        if isinstance(row, dict) and isinstance(row.get("name"), str) and row.get("state"):
            first_line = str(row.get("reason") or "").splitlines()[:1]
            reason = "".join(first_line)[:MAX_REASON]
            states.setdefault(row["name"], []).append((str(row["state"]), reason))
    ready = frozenset(name for name, rows in states.items() if any(state == "READY" for state, _ in rows))
    others = tuple(
        (name, f"{state}: {reason}" if reason else state)
        for name, rows in states.items()
        if name not in ready
        for state, reason in rows[:1]
    )
    return Index(ready, others)
