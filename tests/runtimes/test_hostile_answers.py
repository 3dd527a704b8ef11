"""Endpoints that answer with JSON of another form than theirs: learnt as nothing, never an error."""

from __future__ import annotations

import json

import pytest

from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry

SCALARS = (None, 5, "text", True, [], {}, [None, 5, "x", [], {}], {"a": None})
KEYS = (
    "data",
    "version",
    "release",
    "api",
    "modelInfo",
    "selectedModelProfileId",
    "name",
    "state",
    "platform",
)
KEYS += ("backend", "ensemble_scheduling", "step", "instance_group", "model_transaction_policy", "parameters")


def bodies() -> list[bytes]:
    whole = [json.dumps(value) for value in SCALARS]
    inside = [json.dumps(dict.fromkeys(KEYS, value)) for value in SCALARS]
    listed = [json.dumps([dict.fromkeys(KEYS, value)]) for value in SCALARS]
    rows = [
        json.dumps({"data": [{"id": value, "root": value, "parent": value, "max_model_len": value}]})
        for value in SCALARS
    ]
    return [text.encode() for text in (*whole, *inside, *listed, *rows)] + [
        b"",
        b"\xff\xfe",
        b"{",
        b"NaN",
        b"[" * 200_000,
    ]


@pytest.mark.parametrize("runtime", Registry().names)
def test_no_answer_of_a_cheap_endpoint_is_too_strange(runtime: str) -> None:
    for status in (200, 404, 500):
        for body in bodies():
            adapter = Registry().adapter(runtime)
            names = [endpoint.name for endpoint in adapter.endpoints if not endpoint.page]
            for name in (*names, "config/a", "v2", "models", "version", "release", "metadata", "index"):
                adapter.learn(name, Answer(status, body))
            adapter.findings()
