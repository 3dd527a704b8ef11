"""The closed loop, in short: the demand beside other policies, faults, drains. The whole is a command."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from sidecar.autoscale.compared import DEMAND, KV_USAGE, WAITING, policy
from sidecar.autoscale.faults import Fault
from sidecar.autoscale.keda import Fallback, ScaledObject, Trigger
from sidecar.autoscale.loop import Run, run
from sidecar.autoscale.objectives import GOAL, shares
from sidecar.autoscale.oracle import Oracle, needs, oracle, sustained_rate
from sidecar.autoscale.policy import ROUTER, Policy
from sidecar.autoscale.traffics import LONG_OUTPUTS, SCENES, SLOTS_BOUND, Scene
from sidecar.autoscale.verdict import Verdict, flaps, judge
from sidecar.simulator.fleet import round_robin
from sidecar.simulator.traffic import Steady, Steps

#: A step on long answers: few requests, so it is quick.
STEP = Scene(
    "short-step",
    "twice the load after five minutes",
    Steps(((0, 1.6), (300, 1.6), (300, 3.2))),
    LONG_OUTPUTS,
    seconds=1200.0,
    event=300.0,
    start=2,
)


@cache
def plan_for(scene: Scene) -> Oracle:
    return oracle(replace(scene, faults=()))


def score(ran: Run) -> Verdict:
    return judge(ran, plan_for(ran.scene))


@cache
def played(of: Policy, scene: Scene = STEP) -> Run:
    return run(scene, of)


def test_the_demand_keeps_more_at_less_than_waiting_or_kv_usage() -> None:
    demand, waiting, kv = (score(played(one)) for one in (DEMAND, WAITING, KV_USAGE))
    assert demand.attained > 0.85
    assert demand.cost < 1.7
    assert demand.flaps <= 2
    assert demand.recovery is not None and demand.recovery < 600
    assert demand.attained > waiting.attained
    assert demand.attained > kv.attained + 0.3


def test_the_same_seed_is_the_same_run() -> None:
    scene = replace(STEP, seconds=300.0)
    again = run(scene, DEMAND)
    assert again.samples == played(DEMAND, scene).samples
    assert again.requests == played(DEMAND, scene).requests
    assert run(scene, DEMAND, seed=2).requests != again.requests


def test_a_constant_load_is_held_without_a_flap() -> None:
    scene = replace(STEP, load=Steady(1.5), event=None, seconds=900.0)
    verdict = score(run(scene, DEMAND))
    assert verdict.attained > 0.99
    assert verdict.flaps == 0
    assert verdict.most == 2


def test_slots_that_nobody_tells_are_learnt_from_a_queue_and_not_forgotten() -> None:
    load = Steps(((0, 1.7), (240, 1.7), (240, 1.3)))
    scene = replace(STEP, load=load, kind=SLOTS_BOUND, event=None, start=1, seconds=1800.0)
    ran = run(scene, DEMAND)
    late = [sample for sample in ran.samples if sample.second > 1200]
    assert {sample.wanted for sample in late} == {2}, "ten minutes later it is as if there had been no limit"
    assert score(ran).flaps <= 1


def test_half_of_the_sidecars_blind_is_no_reason_to_scale_in() -> None:
    """Four replicas carry the load of 2.9; left out, the blind ones would leave a demand for two."""
    faults = (Fault("blind", 300.0, 900.0, share=0.5),)
    ran = run(replace(STEP, load=Steady(2.9), start=4, event=None, seconds=900.0, faults=faults), DEMAND)
    blind = [one for one in ran.samples if one.second > 360.0]
    assert min(one.wanted for one in blind) >= 3
    assert min(one.value or 0.0 for one in blind) > 2.0
    assert score(ran).attained > 0.95


def test_all_blind_holds_the_size_and_the_fallback_never_makes_it_smaller() -> None:
    scene = replace(
        STEP, load=Steady(3.2), start=5, seconds=1200.0, event=None, faults=(Fault("blind", 300.0, 1300.0),)
    )
    ran = run(scene, DEMAND)
    blind = [one for one in ran.samples if one.second > 360.0]
    assert {one.value for one in blind} == {None}
    (held,) = {one.wanted for one in blind}
    assert held >= 5


def test_no_metrics_at_all_hold_the_size() -> None:
    scene = replace(
        STEP, load=Steady(0.2), start=4, seconds=900.0, event=None, faults=(Fault("no_metrics", 10.0, 900.0),)
    )
    assert {one.wanted for one in run(scene, DEMAND).samples} == {4}


def test_scaling_in_cuts_no_generation() -> None:
    scene = replace(STEP, load=Steps(((0, 3.2), (300, 3.2), (300, 0.5))), start=5, seconds=1200.0)
    ran = run(scene, DEMAND)
    assert ran.samples[-1].wanted < 5
    assert (ran.lost, ran.unfinished) == (0, 0)
    assert score(ran).attained > 0.95


def test_a_replica_that_hangs_is_replaced_and_the_rest_go_on() -> None:
    scene = replace(
        STEP, load=Steady(1.6), start=3, seconds=900.0, event=None, faults=(Fault("hang", 300.0, 500.0),)
    )
    ran = run(scene, DEMAND)
    bad = sum(not kept for _, kept in ran.requests)
    assert 0 < bad < 0.2 * len(ran.requests)
    assert min(one.wanted for one in ran.samples) >= 2


def test_from_zero_by_the_router_and_back() -> None:
    """Nothing for ten minutes, then work: the router wakes it, the demand does the rest, the cooldown ends it."""
    spec = ScaledObject(
        (Trigger(ROUTER, 256.0), Trigger("replica_demand", 1.0)),
        minimum=0,
        maximum=8,
        polling=5.0,
        cooldown=200.0,
        fallback=Fallback(6, 1, "currentReplicasIfHigher"),
        behaviour=DEMAND.spec.behaviour,
    )
    scene = Scene(
        "zero",
        "",
        Steps(((0, 0), (200, 0), (200, 1.5), (900, 1.5), (900, 0))),
        LONG_OUTPUTS,
        seconds=1600.0,
        start=0,
        cold_start=60.0,
    )
    sizes = {one.second: one.wanted for one in run(scene, Policy("zero", spec, ("sum", "sum"))).samples}
    assert sizes[195.0] == 0, "the demand fails at zero, which wakes nobody"
    assert sizes[240.0] >= 1
    assert sizes[900.0] >= 2
    assert sizes[1590.0] == 0


def test_the_oracle_knows_the_traffic_ahead_by_the_cold_start() -> None:
    assert needs(STEP)[:22] == [2] * 12 + [4] * 10  # 300 s, less 120 s of a start
    plan = plan_for(STEP)
    assert list(plan.sizes) == needs(STEP)
    assert plan.replica_seconds == pytest.approx(sum(plan.sizes) * 15, rel=0.02)  # and what drains
    assert plan.attained >= GOAL


def test_a_plan_that_falls_short_when_it_is_played_gets_more_where_it_did() -> None:
    """Taken in turn, two replicas that are just enough on average are not."""
    scene = replace(
        STEP, load=Steps(((0, 1.0), (600, 1.0), (600, 1.99))), router=round_robin, event=None, start=1
    )
    plan = plan_for(scene)
    assert plan.attained >= GOAL
    assert sum(plan.sizes) > sum(needs(scene))
    assert set(plan.sizes[:10]) == {1}, "nothing is added where nothing fell short"


def test_what_a_replica_is_said_to_sustain_is_what_it_does() -> None:
    assert sustained_rate(LONG_OUTPUTS, replicas=2, seconds=200.0) == pytest.approx(
        LONG_OUTPUTS.sustained, rel=0.15
    )


def test_flaps_are_changes_of_direction() -> None:
    assert flaps([1, 2, 2, 3, 3, 2, 2, 3]) == 2
    assert flaps([5, 4, 3, 3]) == 0


def test_recovery_and_attainment_are_of_when_requests_were_asked() -> None:
    scene = replace(STEP, seconds=600.0, event=300.0)
    bad = Run(scene, DEMAND, requests=[(float(second), not 300 <= second < 420) for second in range(600)])
    verdict = judge(bad, Oracle((2,) * 40, 1200.0, 1.0))
    assert verdict.recovery == 120.0
    assert verdict.attained == pytest.approx(0.8)
    assert shares(bad.requests, scene.seconds, 30.0)[10:14] == [0.0] * 4


def test_names_of_traffics_are_unique_and_each_needs_more_than_nothing() -> None:
    for scene in SCENES.values():
        assert max(needs(scene)) > 1
        assert scene.traffic(1).rate.peak > 0
    assert policy("x", "y", 1.0).spec.minimum == 1
