"""ScaledObjects as policies, and what is said of those that can't be one."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from sidecar.autoscale.hpa import DOWN, Behaviour, Limit, Rules
from sidecar.autoscale.keda import Fallback, ScaledObject, Trigger
from sidecar.autoscale.policy import Policy, PolicyError, read_policies

OBJECT = """
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: llm}
spec:
  scaleTargetRef: {name: vllm}
  pollingInterval: 5
  minReplicaCount: 1
  maxReplicaCount: 8
  fallback: {failureThreshold: 6, replicas: 2, behavior: currentReplicas}
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        scaleUp: {policies: [{type: Pods, value: 2, periodSeconds: 60}], selectPolicy: Min}
  triggers:
    - type: prometheus
      metadata:
        serverAddress: http://p
        query: 'avg(inference_kv_cache_usage_ratio{app="x"}) and on() (count(inference_target_up == 1) > 0)'
        threshold: "0.7"
        activationThreshold: "0.1"
      metricType: Value
    - {type: metrics-api, metadata: {url: "http://f:9845/v1/signals/fleet_replica_demand?x=y", targetValue: "1"}}
    - {type: external, metadata: {scalerAddress: f, signal: requests_waiting, target: "4"}}
    - {type: prometheus, name: router, metadata: {query: sum(anything), threshold: "9"}}
"""


def test_everything_that_counts_is_read(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(OBJECT)
    spec = ScaledObject(
        (
            Trigger("kv_cache_usage_ratio", 0.7, 0.1, "Value"),
            Trigger("replica_demand", 1.0),
            Trigger("requests_waiting", 4.0),
            Trigger("router", 9.0),
        ),
        minimum=1,
        maximum=8,
        polling=5.0,
        fallback=Fallback(6, 2, "currentReplicas"),
        behaviour=Behaviour(Rules(0.0, (Limit("Pods", 2, 60.0),), "Min"), DOWN),
    )
    assert read_policies(file) == [Policy("llm", spec, ("avg", "sum", "sum", "sum"))]


def test_defaults_are_kedas(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("kind: ScaledObject\nspec: {triggers: [{type: external, metadata: {scalerAddress: f}}]}")
    (policy,) = read_policies(file)
    assert policy.spec == ScaledObject((Trigger("replica_demand", 1.0),))
    assert (policy.spec.polling, policy.spec.cooldown, policy.spec.maximum) == (30.0, 300.0, 100)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kind": "Deployment"}, "no ScaledObject"),
        ({"spec": {}}, "the key 'triggers' is missing"),
        ({"spec": {"triggers": [{"type": "cron", "metadata": {}}]}}, "cron can't be simulated"),
        (
            {"spec": {"triggers": [{"type": "prometheus", "metadata": {"query": "sum(x)"}}]}},
            "no signal of the sidecar",
        ),
        (
            {"spec": {"triggers": [{"type": "external", "metadata": {"signal": "cost_total"}}]}},
            "it reads cost_total",
        ),
        ({"spec": {"triggers": 3}}, ""),
    ],
)
def test_what_can_not_be_used_is_told(change: dict[str, object], says: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(yaml.safe_dump({**yaml.safe_load(OBJECT), **change}))
    with pytest.raises(PolicyError) as refused:
        read_policies(file)
    assert str(refused.value).startswith(str(file))
    assert says in str(refused.value)


@pytest.mark.parametrize("text", ["{", "\x00", "- 1"])
def test_a_file_that_is_none(text: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    for path in (file, tmp_path / "missing.yaml", tmp_path):
        with pytest.raises(PolicyError):
            read_policies(path)
