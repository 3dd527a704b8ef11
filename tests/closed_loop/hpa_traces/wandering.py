"""Scenarios by chance."""

from __future__ import annotations

import random
from typing import Any

SYNCS = 40


def wandering(seed: int) -> dict[str, Any]:
    """Behaviours of every kind, a wandering metric or two that fail now and then, somebody else who sets the
    size, pods that lag behind."""
    dice = random.Random(seed)
    count, level, syncs = dice.choice([1, 1, 2]), 5.0, []
    for _ in range(SYNCS):
        level = min(max(level * dice.choice([0.5, 0.8, 0.95, 1.0, 1.0, 1.1, 1.3, 2.0]), 0.3), 25.0)
        values = [
            None if dice.random() < 0.1 else round(level * dice.uniform(0.9, 1.1), 3) for _ in range(count)
        ]
        sync: dict[str, Any] = {"values": values}
        if dice.random() < 0.06:
            sync["scale"] = dice.randint(1, 22)
        if dice.random() < 0.15:
            sync["status"] = dice.randint(1, 20)
        syncs.append(sync)
    spec: dict[str, Any] = {"minReplicas": dice.choice([1, 2]), "maxReplicas": dice.choice([12, 20])}
    if seed % 6:
        spec["behavior"] = {"scaleUp": _rules(dice, 0, 2, 3), "scaleDown": _rules(dice, 0, 3, 5)}
    metrics = [{"AverageValue": dice.choice([1, 0.7])} for _ in range(count)]
    name = f"wandering-{seed}"
    return {"name": name, "says": "by chance", "start": 5, "spec": spec, "metrics": metrics, "syncs": syncs}


def _rules(dice: random.Random, *windows: int) -> dict[str, Any]:
    kinds = dice.sample([("Pods", 1), ("Pods", 3), ("Percent", 20), ("Percent", 100)], dice.choice([1, 2]))
    return {
        "stabilizationWindowSeconds": dice.choice(windows),
        "selectPolicy": dice.choices(["Max", "Min", "Disabled"], [5, 4, 1])[0],
        "policies": [
            {"type": kind, "value": value, "periodSeconds": dice.choice([1, 2, 3, 6])}
            for kind, value in kinds
        ],
    }
