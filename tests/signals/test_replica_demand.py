"""The demand for replicas beside its definition as plain code, on polls drawn and on polls of a real vLLM."""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import isnan
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sidecar.pipeline import Settings as TargetSettings
from sidecar.pipeline import TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry
from sidecar.signals import GapObjective, Settings, Signals
from sidecar.signals.replica_demand import reason
from sidecar.snapshot import Block
from tests.signals.reference import UTILISATION, ReplicaDemand
from tests.signals.worlds import EMPTY_GAPS, EMPTY_POLL, Replica

THRESHOLD, BUDGET = 0.05, 0.05
CAPTURES = Path(__file__).parent / "captures"


def drawn(rng: random.Random, polls: int, every: float) -> Iterator[tuple[float, dict[str, float]]]:
    """A replica of 64 slots under load that jumps: quiet, busy, overloaded, with gaps that grow with the batch
    and requests that finish in clumps."""
    poll = EMPTY_POLL | EMPTY_GAPS
    now, load = 0.0, rng.uniform(0, 40)
    for _ in range(polls):
        now += every * rng.uniform(0.8, 1.2)
        if rng.random() < 0.03:
            load = rng.choice([0.0, rng.uniform(0, 5), rng.uniform(0, 90)])
        running = min(max(0, round(rng.gauss(load, 3))), 64)
        gap = 0.01 + 0.0003 * running
        gaps = int(running * every / gap)
        late = int(gaps * rng.uniform(0, 0.1)) if running > 50 else 0
        finished = rng.randrange(0, 3 + running // 10)
        poll = dict(poll)
        poll["running"], poll["waiting"] = float(running), float(max(0, round(load - 60 + rng.gauss(0, 3))))
        poll["kv"] = min(1.0, running / 70 * rng.uniform(0.8, 1.2))
        poll["itl_cnt"] += gaps
        poll["itl_sum"] += gaps * gap * rng.uniform(0.97, 1.03)
        poll["itl_good"] += gaps - late
        for field in ("finished", "inf_cnt"):
            poll[field] += finished
        poll["inf_sum"] += finished * rng.uniform(3, 20)
        yield now, poll


def same(got: Block, reference: ReplicaDemand) -> None:
    wanted = reference.value()
    assert got.get("replica_demand") == pytest.approx(wanted, rel=1e-9, abs=1e-12)
    limit = reference.why["limit"]
    load = reference.why["load"]
    assert got.get("offered_load_requests") == pytest.approx(load, rel=1e-9, abs=1e-9)
    if wanted > 0 and reference.why["capacity"] < 1e6:
        assert decision(got)[0] == limit
        assert got.get("capacity_requests", limit=limit) == pytest.approx(reference.why["capacity"])


def decision(block: Block) -> tuple[str, str]:
    (one,) = [
        series for series in block.layout.find("replica_demand_info") if block.values[series.start] == 1
    ]
    return one.label("limit"), one.label("reason")


def test_equals_its_definition_on_drawn_polls() -> None:
    """From the second poll on: of one poll alone the definition says 0, whatever runs."""
    limits = set().union(*map(compare, range(8)))
    assert {"slots", "kv_cache", "slo", "observed"} <= limits


def compare(seed: int) -> set[str]:
    """One replica through both; returns the limits that decided."""
    rng = random.Random(seed)
    slots = rng.choice([64.0, None])
    threshold = rng.choice([THRESHOLD, THRESHOLD, None])
    idle, duration = rng.choice([None, 0.009, 0.02]), rng.choice([None, 5.0])
    reference = ReplicaDemand(slots, threshold, BUDGET, idle, duration)
    objectives = (GapObjective(threshold, BUDGET),) if threshold else ()
    signals = Signals(Settings(UTILISATION, gap_objectives=objectives, idle_gap=idle, service_time=duration))
    replica = Replica()
    limits = set()
    for place, (now, poll) in enumerate(drawn(rng, 360, rng.choice([1.0, 2.0, 5.0]))):
        reference.feed(now, **poll)
        block = signals.feed(replica.snapshot(now, poll | ({"slots": slots} if slots else {})))
        assert block is not None
        if not place:
            continue
        if isnan(block.get("replica_demand")):
            assert decision(block) == ("none", "no_capacity")
            reference.value()
            assert reference.why["capacity"] == 1e6 and reference.why["b"] is None
        else:
            same(block, reference)
            limits.add(decision(block)[0])
    return limits


@pytest.mark.parametrize("name", ["load", "preemption"])
@pytest.mark.parametrize("threshold", [None, 0.01, 0.05])
def test_equals_its_definition_on_a_real_vllm(name: str, threshold: float | None) -> None:
    objectives = (GapObjective(threshold, BUDGET),) if threshold else ()
    pipeline = TargetPipeline(
        TargetSettings(slots=8), Registry(), [Signals(Settings(UTILISATION, gap_objectives=objectives))]
    )
    reference = ReplicaDemand(8, threshold, BUDGET)
    most = 0.0
    for place, (time, page) in enumerate(pages(name)):
        snapshot = pipeline.feed({"metrics": Answer(200, page.encode())}, time=time, mono=time)
        (block,) = snapshot.extra
        reference.feed(time, **read(page, threshold or 0.01))
        if place:
            same(block, reference)
            most = max(most, block.get("replica_demand"))
    assert most > 0.5


def pages(name: str) -> Iterator[tuple[float, str]]:
    for part in (CAPTURES / f"{name}.txt").read_text().split("=== ")[1:]:
        time, _, page = part.partition("\n")
        yield float(time), page


def read(page: str, threshold: float) -> dict[str, float]:
    """A poll by another parser than the line's."""
    wanted = {
        "vllm:num_requests_running": "running",
        "vllm:num_requests_waiting": "waiting",
        "vllm:kv_cache_usage_perc": "kv",
        "vllm:request_inference_time_seconds_sum": "inf_sum",
        "vllm:request_inference_time_seconds_count": "inf_cnt",
        "vllm:inter_token_latency_seconds_sum": "itl_sum",
        "vllm:inter_token_latency_seconds_count": "itl_cnt",
    }
    poll = dict.fromkeys([*wanted.values(), "itl_good"], 0.0)
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name in wanted:
                poll[wanted[sample.name]] = sample.value
            elif sample.name == "vllm:inter_token_latency_seconds_bucket" and (
                float(sample.labels["le"]) == threshold
            ):
                poll["itl_good"] = sample.value
    return poll


@pytest.mark.parametrize("seed", range(3))
def test_adds_up_over_replicas(seed: int) -> None:
    """Four replicas that share a load ask together for what one asks for whose load is theirs."""
    rng = random.Random(seed)
    one, many = Signals(), [Signals() for _ in range(4)]
    replica, parts = Replica(), [Replica() for _ in range(4)]
    poll = EMPTY_POLL | {"slots": 64.0}
    for place in range(120):
        now, arriving = 2.0 * place, rng.uniform(0, 12)
        poll = poll | {"running": arriving, "waiting": rng.choice([0.0, 3.0])}
        poll |= {field: poll[field] + 8 for field in ("finished", "inf_cnt")} | {
            "inf_sum": poll["inf_sum"] + 40
        }
        whole = one.feed(replica.snapshot(now, poll))
        quarter = poll | {
            field: poll[field] / 4 for field in ("running", "waiting", "inf_sum", "inf_cnt", "finished")
        }
        blocks = [
            signals.feed(part.snapshot(now, quarter)) for signals, part in zip(many, parts, strict=True)
        ]
        assert whole is not None
        for signal in ("replica_demand", "offered_load_requests", "queue_seconds_total", "arrivals_total"):
            together = sum(block.get(signal) for block in blocks if block is not None)
            if place > 10:  # ten finishes are needed for a service time: a quarter of them takes longer
                assert together == pytest.approx(whole.get(signal), rel=1e-9), signal


def test_the_reason_names_what_decided() -> None:
    assert reason("slots", 0.0, 0.0, timed=True) == "idle"
    assert reason("slots", 5.0, 0.0, timed=False) == "no_service_time"
    assert reason("slots", 5.0, 0.4, timed=True) == "load"
    assert reason("slots", 5.0, 2.0, timed=True) == "backlog"
    assert reason("slo", 5.0, 2.0, timed=True) == "slo"


def test_a_load_without_any_known_limit_is_no_demand_of_zero() -> None:
    """Without slots, KV usage or gaps between tokens nobody knows how much a replica takes."""
    signals, replica = Signals(), Replica()
    poll = {"running": 0.0, "waiting": 0.0, "finished": 0.0}
    idle = signals.feed(replica.snapshot(0, poll))
    assert idle is not None and idle.get("replica_demand") == 0 and decision(idle) == ("none", "idle")
    busy = signals.feed(replica.snapshot(2, poll | {"running": 6.0}))
    assert busy is not None and isnan(busy.get("replica_demand"))
    assert decision(busy) == ("none", "no_capacity")


def test_a_decision_that_changes_leaves_the_layout_alone() -> None:
    signals, replica = Signals(), Replica()
    seen = set()
    blocks = []
    for place in range(30):
        waiting = 20.0 if place > 20 else 0.0
        poll = {
            "running": 8.0 if place > 5 else 0.0,
            "waiting": waiting,
            "finished": 10.0 * place,
            "slots": 8.0,
        }
        block = signals.feed(replica.snapshot(2.0 * place, poll))
        assert block is not None
        blocks.append(block)
        seen.add(decision(block)[1])
    assert {"idle", "load", "backlog"} <= seen
    assert len({id(block.layout) for block in blocks}) == 1
