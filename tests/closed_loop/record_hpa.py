"""Record what Kubernetes' own HPA controller decides, for test_hpa_recorded.py.

    python -m tests.closed_loop.record_hpa --bin DIR --label 1.20.2 tests/closed_loop/hpa_traces/1.20.2.json

DIR holds `etcd`, `kube-apiserver` and `kube-controller-manager`. This script plays the Deployments' controller
(sizes and pods, by patches of their status) and the metrics' APIs. What a sync saw and set is read from the API
server's audit log: it is what the controller was told and what it asked for, whatever its version.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from tests.closed_loop.hpa_traces.control_plane import DOWNSCALE, TOLERANCE, Cluster, cluster, quantity
from tests.closed_loop.hpa_traces.wandering import wandering

SETTLED = 0.25  # seconds after a sync began its decision is in the log
TOGETHER = 6  # scenarios at a time
SCENARIOS = Path(__file__).parent / "hpa_traces" / "scenarios.yaml"
DEPLOYMENT = """
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec: {{containers: [{{name: c, image: none}}]}}
"""
POD = """
metadata: {{name: p{place}, labels: {{app: {name}}}}}
spec: {{containers: [{{name: c, image: none}}]}}
"""
HPA = """
metadata: {{name: {name}}}
spec: {{scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: {name}}}}}
"""


@dataclass(slots=True)
class Play:
    """A scenario on its way: what is true until the next sync, and the syncs so far."""

    scenario: Mapping[str, Any]
    now: dict[str, Any] = field(default_factory=dict)
    asked: asyncio.Queue[Mapping[str, Any]] = field(default_factory=asyncio.Queue)
    put: int | None = None
    pods: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.scenario["name"])

    @property
    def size(self) -> int:
        """Of the Deployment, as the controller left it."""
        return int(self.rows[-1]["desired"] if self.rows else self.scenario["start"])

    def manifest(self) -> dict[str, Any]:
        """The HorizontalPodAutoscaler."""
        found: dict[str, Any] = yaml.safe_load(HPA.format(name=self.name))
        found["spec"] |= self.scenario["spec"]
        found["spec"]["metrics"] = [
            _metric(place, *one)
            for place, each in enumerate(self.scenario["metrics"])
            for one in each.items()
        ]
        return found

    def expect(self, sync: Any) -> None:
        """Take what the scenario says of the next sync."""
        given = dict(sync) if isinstance(sync, Mapping) else {"values": sync}
        size = given.get("scale", self.size)
        status, pending = given.get("status", size), given.get("pending", 0)
        ready = given.get("ready", status - pending)
        self.now = {"scale": size, "status": status, "ready": ready, "pending": pending}
        self.now["values"] = given["values"]

    def note(self, asked: Mapping[str, Any]) -> None:
        """One sync, from its request for the size."""
        now, scale = self.now, asked["responseObject"]
        current = scale["spec"].get("replicas", 0)
        if (current, scale["status"]["replicas"]) != (now["scale"], now["status"]):
            raise RuntimeError(f"{self.name}: a sync came before its state, or an update was missed")
        at = datetime.fromisoformat(asked["requestReceivedTimestamp"]).timestamp()
        seen = {key: now[key] for key in ("status", "ready", "pending", "values")}
        desired = current if self.put is None else self.put
        self.rows.append({"at": at, "current": current, **seen, "desired": desired})
        self.put = None

    def trace(self) -> dict[str, Any]:
        since = self.rows[0]["at"]
        rows = [{**row, "at": round(row["at"] - since, 3)} for row in self.rows]
        return {key: self.scenario[key] for key in ("name", "says", "spec", "metrics")} | {"syncs": rows}


def _metric(place: int, kind: str, target: float) -> dict[str, Any]:
    key, said = ("value", "Value") if kind == "Value" else ("averageValue", "AverageValue")
    source = {"metric": {"name": f"m{place}"}, "target": {"type": said, key: quantity(target)}}
    return {"type": "Pods", "pods": source} if kind == "Pods" else {"type": "External", "external": source}


async def play(one: Cluster, hpas: str, play: Play) -> None:
    """One scenario, from its objects to its last sync."""
    name, (first, *others) = play.name, play.scenario["syncs"]
    await one.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    deployment = yaml.safe_load(DEPLOYMENT.format(name=name, replicas=play.size))
    await one.call("POST", f"/apis/apps/v1/namespaces/{name}/deployments", deployment)
    play.expect(first)
    await arrange(one, play)
    hpas = hpas.format(name)
    await one.call("POST", hpas, play.manifest())
    for later in [*others, None]:
        asked = await play.asked.get()
        await asyncio.sleep(SETTLED)
        play.note(asked)
        if later is None:
            await one.call("DELETE", f"{hpas}/{name}")
            return
        play.expect(later)
        await arrange(one, play)
        if not play.asked.empty():
            raise RuntimeError(f"{name}: this machine is too slow, a sync came before its state")


async def arrange(one: Cluster, play: Play) -> None:
    """Sizes and pods as the scenario says."""
    now, name = play.now, play.name
    deployment = f"/apis/apps/v1/namespaces/{name}/deployments/{name}"
    if now["scale"] != play.size:
        await one.call("PATCH", deployment, {"spec": {"replicas": now["scale"]}})
    await one.call("PATCH", f"{deployment}/status", {"status": {"replicas": now["status"]}})
    if all("AverageValue" in metric for metric in play.scenario["metrics"]):
        return  # it never looks at pods
    pods = f"/api/v1/namespaces/{name}/pods"
    for place in range(now["status"], play.pods):
        await one.call("DELETE", f"{pods}/p{place}")
    for place in range(now["status"]):
        if place >= play.pods:
            await one.call("POST", pods, yaml.safe_load(POD.format(name=name, place=place)))
        phase = "Running" if place < now["status"] - now["pending"] else "Pending"
        ready = {"type": "Ready", "status": str(place < now["ready"])}
        status = {"phase": phase, "conditions": [ready]}
        await one.call("PATCH", f"{pods}/p{place}/status", {"status": status})
    play.pods = now["status"]


async def follow(one: Cluster, plays: Mapping[str, Play]) -> None:
    """Hand the controller's reads and writes to their scenarios."""
    async for event in one.events():
        play = plays[event["objectRef"]["namespace"]]
        if event["verb"] == "get":
            play.asked.put_nowait(event)
        else:
            play.put = event["responseObject"]["spec"].get("replicas", 0)


async def record(binaries: Path, scenarios: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The traces of the scenarios, in their order."""
    plays: dict[str, Play] = {}

    def value_of(space: str, metric: str) -> Any:
        return plays[space].now["values"][int(metric[1:])]

    async with cluster(binaries, value_of) as one, asyncio.TaskGroup() as tasks:
        known = [each["version"] for each in (await one.call("GET", "/apis/autoscaling"))["versions"]]
        version = "v2" if "v2" in known else "v2beta2"
        hpas = f"/apis/autoscaling/{version}/namespaces/{{}}/horizontalpodautoscalers"
        following = tasks.create_task(follow(one, plays))
        for since in range(0, len(scenarios), TOGETHER):
            batch = [Play(scenario) for scenario in scenarios[since : since + TOGETHER]]
            plays |= {each.name: each for each in batch}
            await asyncio.gather(*(play(one, hpas, each) for each in batch))
            print(", ".join(each.name for each in batch), file=sys.stderr)
        following.cancel()
    return [each.trace() for each in plays.values()]


def _lines(head: Mapping[str, Any], traces: list[dict[str, Any]]) -> Iterator[str]:
    """JSON with one sync a line."""
    yield json.dumps(head)[:-1] + ', "traces": ['
    for place, trace in enumerate(traces):
        yield json.dumps({key: trace[key] for key in trace if key != "syncs"})[:-1] + ', "syncs": ['
        yield ",\n".join(map(json.dumps, trace["syncs"]))
        yield "]}," if place < len(traces) - 1 else "]}"
    yield "]}"


def main() -> None:
    about = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=about)
    parser.add_argument("--bin", type=Path, required=True, help="folder of the three programs")
    parser.add_argument("--label", required=True, help="the version, as the file shall say it")
    parser.add_argument("--chance", type=int, default=12, help="how many scenarios by chance, default 12")
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    scenarios = yaml.safe_load(SCENARIOS.read_text()) + [wandering(seed) for seed in range(given.chance)]
    traces = asyncio.run(record(given.bin, scenarios))
    head = {"kubernetes": given.label, "tolerance": TOLERANCE, "downscale_stabilisation": DOWNSCALE}
    given.out.write_text("\n".join(_lines(head, traces)) + "\n")


if __name__ == "__main__":
    main()
