"""The probe's block in front of the stages that derive: they compile once, not at every tick."""

from __future__ import annotations

from sidecar.app.parts import engine_of, registry_of, settings_of, signals_of
from sidecar.config import load_bytes
from sidecar.pipeline import TargetPipeline
from sidecar.probe import Figures, Outcome
from sidecar.runtimes.adapter import Answer
from sidecar.simulator.replica import Replica, ReplicaConfig
from sidecar.simulator.request import Request
from sidecar.simulator.vllm_page import VllmPage
from sidecar.snapshot import Block, Provenance, Snapshot

CONFIG = b"""
targets: [{url: "http://127.0.0.1:8000", runtime: vllm}]
slos:
  - {name: ttft, signal: time_to_first_token, threshold: 1s, objective: 95%}
  - {name: probed, signal: probe_time_to_first_token, threshold: 1s, objective: 95%}
"""


class Probed:
    """The stage without its requests."""

    def __init__(self) -> None:
        self.figures = Figures("local")

    @property
    def provenance(self) -> tuple[Provenance, ...]:
        return self.figures.provenance

    def feed(self, snapshot: Snapshot) -> Block | None:
        return self.figures.block(snapshot.runtime, snapshot.mono)


def test_layouts_stay_while_probes_come_and_go() -> None:
    config = load_bytes(CONFIG, "test")
    (target,) = config.targets
    probed = Probed()
    line = TargetPipeline(
        settings_of(target), registry_of(config), [probed, engine_of(config), signals_of(config, target)]
    )
    replica, page = Replica(ReplicaConfig()), VllmPage("0.32.0")
    layouts = []
    good = Outcome(first=0.05, gaps=(0.01,) * 7, generated=8, prompt=12)
    for tick in range(12):
        replica.advance(2.0 * tick)
        replica.submit(Request(prompt_tokens=50, output_tokens=20))
        probed.figures.record("sim/llama-8b", good, "POST /v1/completions", 2.0 * tick + 100)
        answer = Answer(200, page.render(replica))
        snapshot = line.feed({"metrics": answer}, time=1e9 + 2.0 * tick, mono=2.0 * tick)
        layouts.append(tuple(block.layout for block in snapshot.extra))
    assert layouts[-1] == layouts[3], "nothing new has come: compared by identity"
    judged = {one.label("slo") for one in layouts[-1][1].by_signal["slo_events_total"]}
    assert judged == {"ttft", "probed"}
    told = {one.signal: one.method for one in snapshot.provenance}
    assert told["probe_success"] == "probe" and told["requests_running"] == "native"
