"""Objectives on probes: judged by the probes' own counts, which disturb no other and are not disturbed."""

from __future__ import annotations

import pytest

from sidecar.config import ConfigError, load_bytes
from sidecar.probe import Figures, Outcome
from sidecar.slo.check import check
from sidecar.slo.configured import objectives_of
from sidecar.slo.engine import SloEngine
from sidecar.slo.objective import Objective, objectives_from_config
from sidecar.snapshot import EMPTY_BLOCK, Block, LayoutBuilder, Snapshot

GOOD = Outcome(first=0.1, gaps=(0.01,) * 7, generated=8)
SLOW = Outcome(first=3.0, gaps=(0.01,) * 7, generated=8)
BOTH = (
    Objective("ttft", "time_to_first_token", 0.9, threshold=1.0),
    Objective("probe-ttft", "probe_time_to_first_token", 0.9, threshold=1.0),
)


class World:
    """A runtime that counts first tokens, and probes of it; one snapshot each 2 s."""

    def __init__(self, target: str = "t") -> None:
        self.target = target
        self.figures = Figures(target)
        self.mono = 0.0
        build = LayoutBuilder()
        build.add("time_to_first_token_seconds", {"target": target, "model_name": "m"}, (1.0, 10.0))
        self.layout = build.build()
        self.good = self.bad = 0.0

    def snapshot(self, epoch: int = 0) -> Snapshot:
        self.mono += 2.0
        counts = (self.good, self.good + self.bad, self.good + self.bad, 9.0)
        probed = self.figures.block("vllm", self.mono)
        extra = () if probed is None else (probed,)
        return Snapshot(
            *(self.target, "vllm", self.mono + 1e9, self.mono, epoch, True),
            *(Block(self.layout, counts), EMPTY_BLOCK, self.figures.provenance, extra),
        )

    def probe(self, outcome: Outcome = GOOD, times: int = 1) -> None:
        for _ in range(times):
            self.figures.record("m", outcome, "POST /v1/completions", self.mono + 100)


def counted(block: Block, slo: str) -> tuple[float, float]:
    return (
        block.get("slo_events_total", slo=slo),
        block.get("slo_bad_events_total", slo=slo, bound="lenient"),
    )


def test_each_is_judged_by_its_own_counts() -> None:
    world, engine = World(), SloEngine(BOTH)
    world.probe()
    engine.feed(world.snapshot())
    world.good += 90
    world.bad += 10
    world.probe(times=3)
    world.probe(SLOW)
    block = engine.feed(world.snapshot())
    assert counted(block, "ttft") == (100, 10)
    assert counted(block, "probe-ttft") == (4, 1)
    assert engine.feed(world.snapshot()).layout is block.layout
    told = {one.label("slo"): one.label("status") for one in block.layout.by_signal["slo_info"]}
    assert told == {"ttft": "ok", "probe-ttft": "ok"}


def test_no_series_stands_twice_and_the_numbers_are_those_of_the_layout() -> None:
    world, engine = World(), SloEngine(BOTH)
    world.probe()
    block = engine.feed(world.snapshot())
    keys = [(one.signal.name, one.labels) for one in block.layout.series]
    assert len(keys) == len(set(keys))
    assert block.layout.size == len(block.values)


def test_a_restart_of_the_runtime_sets_no_probe_back() -> None:
    world, engine = World(), SloEngine(BOTH)
    world.good = 50.0
    world.probe(times=5)
    engine.feed(world.snapshot())
    world.good = 3.0
    world.probe()
    block = engine.feed(world.snapshot(epoch=1))
    assert counted(block, "ttft") == (3, 0)
    assert counted(block, "probe-ttft") == (1, 0)


def test_probes_that_are_counted_anew_are_no_restart_of_the_runtime() -> None:
    """As after a restart of the sidecar: the runtime's counts went on, the probes' begin at 0."""
    world, engine = World(), SloEngine(BOTH)
    world.good = 1000.0
    world.probe(times=5)
    engine.feed(world.snapshot())
    world.good += 10
    world.probe()
    engine.feed(world.snapshot())
    again = SloEngine(BOTH, engine.saved())
    world.figures = Figures("t")
    world.good += 10
    again.feed(world.snapshot())
    world.probe(SLOW)
    block = again.feed(world.snapshot())
    assert counted(block, "ttft") == (10, 0), "this process has seen ten"
    assert counted(block, "probe-ttft") == (1, 1)


def test_two_targets_and_one_that_is_forgotten() -> None:
    worlds, engine = [World("a"), World("b")], SloEngine(BOTH)
    for _ in range(2):
        for world in worlds:
            world.probe()
            engine.feed(world.snapshot())
    first, second = (engine.feed(world.snapshot()) for world in worlds)
    assert first.layout is not second.layout
    assert engine.feed(worlds[0].snapshot()).layout is first.layout
    assert set(engine.saved()) == {"slo/a", "slo/b", "slo-probed/a", "slo-probed/b"}
    engine.forget("a")
    assert set(engine.saved()) == {"slo/b", "slo-probed/b"}


def test_without_a_probe_an_objective_on_probes_has_no_events() -> None:
    world, engine = World(), SloEngine(BOTH)
    block = engine.feed(world.snapshot())
    assert [one.label("slo") for one in block.layout.by_signal["slo_events_total"]] == ["ttft"]
    told = {one.label("slo"): one.label("status") for one in block.layout.by_signal["slo_info"]}
    assert told["probe-ttft"] == "no_data"


def test_as_a_user_writes_it() -> None:
    text = "slos:\n  - {name: p, signal: probe_inter_token_latency, threshold: 50ms, objective: 99%}\n"
    (objective,) = objectives_of(load_bytes(text.encode(), "test"))
    assert objective.probed and objective.terms == (("probe_inter_token_latency_seconds", 0.05),)
    with pytest.raises(ConfigError, match="required for probe_inter_token_latency"):
        load_bytes(text.replace("threshold: 50ms, ", "").encode(), "test")


def test_a_goodput_judges_requests_and_no_probe() -> None:
    entry = {
        "name": "g",
        "signal": "goodput",
        "objective": "95%",
        "thresholds": {"probe_time_to_first_token": 1.0, "e2e_request_latency": 10.0},
    }
    (found,) = check(objectives_from_config([entry]))
    assert "of the sidecar's own probes" in found.message
    with pytest.raises(ConfigError, match="isn't a latency"):
        load_bytes(
            b"slos: [{name: g, signal: goodput, objective: 95%, "
            b"thresholds: {probe_time_to_first_token: 1s, e2e_request_latency: 9s}}]",
            "test",
        )
