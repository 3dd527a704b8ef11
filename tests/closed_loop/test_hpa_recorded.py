"""The HPA's algorithm against Kubernetes' own controller: every sync that was recorded, decided anew.

What was recorded and how: hpa_traces/ORIGIN.md. Kubernetes 1.20 differs from what the algorithm follows in five
points, each of them a few lines of `Earlier`: with them every decision of that release is met as well.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from sidecar.autoscale import hpa
from sidecar.autoscale.hpa import AverageValue, Behaviour, Hpa, Metric, PerPod, Pods, Rules, Value
from sidecar.autoscale.policy import read_policies

TRACES = Path(__file__).parent / "hpa_traces"
STABILISATION = 300.0  # the controller's own, by default
EARLIER = "1.20.2"


class Earlier(Hpa):
    """As of Kubernetes 1.20."""

    def _proposal(self, current: int, pods: Pods, metrics: Sequence[Metric | None]) -> int | None:
        """A metric that fails doesn't keep the others from scaling in."""
        return super()._proposal(current, pods, [one for one in metrics if one is not None])

    def _stable(self, up: Rules, down: Rules, now: float, current: int, proposed: int) -> int:
        """One window, that of the direction, and it may turn the direction."""
        growing = proposed >= current
        since = now - (up if growing else down).stabilisation
        remembered = [size for moment, size in self.recommendations if moment > since]
        super()._stable(up, down, now, current, proposed)
        return min([proposed, *remembered]) if growing else max([proposed, *remembered])

    def _most(self, rules: Rules, now: float, current: int) -> int:
        """Of a period only the changes in the same direction count."""
        kept, self.downs = self.downs, []
        most = super()._most(rules, now, current)
        self.downs = kept
        return most

    def _least(self, rules: Rules, now: float, current: int) -> int:
        kept, self.ups = self.ups, []
        least = super()._least(rules, now, current)
        self.ups = kept
        return least


def within_earlier(ratio: float, tolerance: float) -> bool:
    """A difference, which binary fractions make larger than a tenth at 1.1."""
    return abs(1.0 - ratio) <= tolerance


def missing_earlier(metric: Metric | None) -> Metric | None:
    """Just at the target, pods without a value counted as 0."""
    if not isinstance(metric, PerPod) or not metric.missing or set(metric.values.values()) != {metric.target}:
        return metric
    return PerPod({**metric.values, **dict.fromkeys(map(str, range(-metric.missing, 0)), 0.0)}, metric.target)


def traces() -> list[Any]:
    found = []
    for file in sorted(TRACES.glob("*.json")):
        recorded = json.loads(file.read_text())
        found += [
            pytest.param(recorded, trace, id=f"{file.stem}-{trace['name']}") for trace in recorded["traces"]
        ]
    return found


def behaviour(spec: dict[str, Any], window: float, folder: Path) -> Behaviour | None:
    """The object's behavior, read as a ScaledObject's is."""
    behavior = spec.get("behavior")
    if behavior is not None:
        down = {"stabilizationWindowSeconds": window, **behavior.get("scaleDown", {})}
        behavior = {**behavior, "scaleDown": down}
    triggers = [{"type": "external", "metadata": {}}]
    advanced = {"horizontalPodAutoscalerConfig": {"behavior": behavior}}
    file = folder / "policy.yaml"
    file.write_text(
        yaml.safe_dump({"kind": "ScaledObject", "spec": {"triggers": triggers, "advanced": advanced}})
    )
    return read_policies(file)[0].spec.behaviour


def metric(given: dict[str, float], value: Any, sync: dict[str, Any]) -> Metric | None:
    ((kind, target),) = given.items()
    if value is None or value == "nothing":
        return None
    if kind == "Pods":
        running = sync["status"] - sync["pending"]
        values = {str(place): one for place, one in enumerate(value[:running])}
        return PerPod(values, target, missing=running - len(values), unready=sync["pending"])
    return AverageValue(value, target) if kind == "AverageValue" else Value(value, target)


@pytest.mark.parametrize(("recorded", "trace"), traces())
def test_every_sync_is_decided_as_kubernetes_decided_it(
    recorded: dict[str, Any], trace: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = recorded["kubernetes"] == EARLIER
    if earlier:
        monkeypatch.setattr(hpa, "_within", within_earlier)
    spec, window = trace["spec"], recorded["downscale_stabilisation"]
    rules = behaviour(spec, window, tmp_path)
    one = (Earlier if earlier else Hpa)(
        spec["minReplicas"], spec["maxReplicas"], rules, recorded["tolerance"]
    )
    pace = 1.0 if rules else STABILISATION / window
    for place, sync in enumerate(trace["syncs"]):
        pairs = zip(trace["metrics"], sync["values"], strict=True)
        metrics = [metric(given, value, sync) for given, value in pairs]
        if earlier:
            metrics = [missing_earlier(each) for each in metrics]
        pods = Pods(sync["status"], sync["ready"])
        desired = one.sync(pace * sync["at"], sync["current"], pods, metrics)
        assert desired == sync["desired"], f"sync {place}: {sync}"


def test_what_was_recorded() -> None:
    """Both releases, and each behaviour that they have."""
    files = {file.stem: json.loads(file.read_text())["traces"] for file in TRACES.glob("*.json")}
    named = {one["name"] for one in yaml.safe_load((TRACES / "scenarios.yaml").read_text())}
    assert set(files) == {EARLIER, "later"}
    for recorded in files.values():
        assert named <= {trace["name"] for trace in recorded}
        assert sum(len(trace["syncs"]) for trace in recorded) > 900
