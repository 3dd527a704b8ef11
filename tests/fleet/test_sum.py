"""The fleet's numbers: sums, who counts, what is kept, and what is said when nobody answers."""

from __future__ import annotations

from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.fleet.fleet import Fleet
from sidecar.fleet.router import Router, selector
from sidecar.snapshot import Block
from tests.fleet.world import MODEL, busy, down, page

STALE = 15.0


def fleet_of(*bodies: bytes | None, vouched: bool = True, now: float = 0.0) -> Fleet:
    """Members a, b, c … with their pages; None has never answered."""
    fleet = Fleet(stale_after=STALE)
    names = [chr(ord("a") + place) for place in range(len(bodies))]
    fleet.list(names, vouched=vouched)
    for name, body in zip(names, bodies, strict=True):
        if body is not None:
            fleet.read(name, body, now)
    return fleet


def demand(block: Block) -> float:
    return block.get("fleet_replica_demand", model_name=MODEL)


def replicas(block: Block) -> tuple[float, ...]:
    return tuple(block.get("fleet_replicas", state=state) for state in ("listed", "ready", "answering"))


def test_gauges_add_up_and_ratios_are_made_once() -> None:
    fleet = fleet_of(busy(1.5), busy(0.5))
    fleet.block(0.0)
    fleet.read("a", busy(1.5, queue_seconds_total=110.0, compute_seconds_total=1010.0), 60.0)
    fleet.read("b", busy(0.5, queue_seconds_total=100.0, compute_seconds_total=1090.0), 60.0)
    block = fleet.block(60.0)
    assert demand(block) == 2.0
    assert block.get("fleet_requests_running", model_name=MODEL) == 24.0
    assert block.get("fleet_queue_seconds_total", model_name=MODEL) == 10.0
    # 10 ÷ 100, where the mean of both ratios would be 0.5
    assert block.get("fleet_queue_to_compute_ratio", window="1m") == pytest.approx(0.1)
    assert replicas(block) == (2, 2, 2)


def test_the_ratio_is_told_as_soon_as_there_are_two_pages() -> None:
    fleet = fleet_of(None)
    fleet.block(0.0)
    fleet.read("a", busy(1.0), 1.0)
    assert isnan(fleet.block(1.0).get("fleet_queue_to_compute_ratio", window="1m"))
    fleet.read("a", busy(1.0, queue_seconds_total=102.0, compute_seconds_total=1010.0), 3.0)
    assert fleet.block(3.0).get("fleet_queue_to_compute_ratio", window="1m") == pytest.approx(0.2)


def test_a_kv_cache_counts_by_its_size() -> None:
    large = busy(1.0, kv_cache_usage_ratio=0.9, kv_cache_capacity_tokens=3000.0)
    small = busy(1.0, kv_cache_usage_ratio=0.1, kv_cache_capacity_tokens=1000.0)
    assert fleet_of(large, small).block(0.0).get("fleet_kv_cache_usage_ratio") == pytest.approx(0.7)


@given(st.lists(st.floats(0, 50), min_size=1, max_size=12), st.integers(0, 12))
def test_the_sum_stands_for_those_too_that_do_not_answer(demands: list[float], silent: int) -> None:
    block = fleet_of(*map(busy, demands), *[None] * silent).block(0.0)
    expected = sum(demands) * (len(demands) + silent) / len(demands)
    assert demand(block) == pytest.approx(expected)
    assert replicas(block) == (len(demands) + silent, len(demands) + silent, len(demands))


def test_nobody_answers_no_value() -> None:
    block = fleet_of(None, None).block(0.0)
    assert isnan(demand(block))
    assert replicas(block) == (2, 2, 0)


def test_nobody_is_listed_no_value() -> None:
    fleet = Fleet()
    fleet.list([], vouched=True)
    assert isnan(demand(fleet.block(0.0)))


def test_numbers_end_with_their_age() -> None:
    fleet = fleet_of(busy(2.0))
    assert demand(fleet.block(STALE)) == 2.0
    assert isnan(demand(fleet.block(STALE + 0.1)))


def test_an_error_does_not_end_them_before() -> None:
    fleet = fleet_of(busy(2.0))
    fleet.failed("a", "timeout")
    assert demand(fleet.block(5.0)) == 2.0
    assert fleet.block(5.0).get("fleet_reads_total", result="timeout") == 1.0


def test_who_vanishes_is_gone_at_once() -> None:
    fleet = fleet_of(busy(1.0), busy(2.0), busy(4.0))
    fleet.list(["a", "c"], vouched=True)
    block = fleet.block(1.0)
    assert demand(block) == 5.0
    assert replicas(block) == (2, 2, 2)
    fleet.read("b", busy(9.0), 1.0)  # a page that was under way
    assert demand(fleet.block(1.0)) == 5.0


def test_counters_never_fall_when_replicas_come_go_and_begin_anew() -> None:
    fleet = fleet_of(busy(1.0, arrivals_total=1000.0), busy(1.0, arrivals_total=500.0))

    def total(now: float) -> float:
        return fleet.block(now).get("fleet_arrivals_total", model_name=MODEL)

    assert total(0.0) == 0.0, "what came before this process is not its to count"
    fleet.read("a", busy(1.0, arrivals_total=1010.0), 5.0)
    fleet.read("b", busy(1.0, arrivals_total=7.0), 5.0)  # restarted
    assert total(5.0) == 17.0
    fleet.list(["a"], vouched=True)
    assert total(6.0) == 17.0
    fleet.list(["a", "d"], vouched=True)
    fleet.read("d", busy(1.0, arrivals_total=1e6), 7.0)  # met in the middle of its life
    assert total(7.0) == 17.0


def test_a_replica_that_is_starting_is_not_counted_unless_its_pod_is_ready() -> None:
    assert replicas(fleet_of(busy(1.0), down(), vouched=False).block(0.0)) == (2, 1, 1)
    assert replicas(fleet_of(busy(1.0), None, vouched=False).block(0.0)) == (2, 1, 1)
    assert replicas(fleet_of(busy(1.0), down(), vouched=True).block(0.0)) == (2, 2, 1)


def test_one_that_served_and_is_silent_is_blind_whoever_lists_it() -> None:
    fleet = fleet_of(busy(1.0), busy(2.0), vouched=False)
    fleet.read("a", busy(1.0), 20.0)
    block = fleet.block(20.0)
    assert replicas(block) == (2, 2, 1)
    assert demand(block) == 2.0


def test_several_targets_of_one_sidecar_are_several_replicas() -> None:
    two = page({"replica_demand": 1.0}, target="x").partition(b"# HELP process")[0]
    both = two + page({"replica_demand": 2.0}, target="y")
    # one page as a renderer writes it: families stand together
    lines = both.decode().splitlines(keepends=True)
    samples = [line for line in lines if not line.startswith("#")]
    body = "".join(sorted(samples)).encode()
    block = fleet_of(body, None).block(0.0)
    assert demand(block) == pytest.approx(3.0 * 3 / 2), "two heard, a third is silent"


def test_medians_outlive_the_replicas() -> None:
    fleet = fleet_of(busy(service_time_seconds=4.0), busy(service_time_seconds=8.0))
    fleet.block(0.0)
    fleet.list([], vouched=True)
    block = fleet.block(1000.0)
    assert block.get("fleet_service_time_seconds", model_name=MODEL) == 6.0
    assert block.get("fleet_idle_inter_token_latency_seconds", model_name=MODEL) == 0.01
    assert block.get("fleet_capacity_requests", model_name=MODEL) == 40.0, "the limit that binds"
    assert isnan(demand(block))


ROUTER = b'router_in_flight{model="m"} %d\nrouter_in_flight{model="other"} 7\nrouter_requests_total %d\n'


def router_of(fleet: Fleet) -> Router:
    fleet.router = Router(
        "http://router", selector('router_in_flight{model="m"}'), selector("router_requests_total")
    )
    return fleet.router


def test_from_zero_the_first_answer_is_right() -> None:
    """One replica runs 40 requests of 6 s at 90 %: 36. With 18 requests a second, 108 run at once: 3 replicas."""
    fleet = fleet_of(busy())
    fleet.block(0.0)
    router = router_of(fleet)
    fleet.list([], vouched=True)
    router.read(ROUTER % (0, 0), 100.0)
    assert demand(fleet.block(100.0)) == 0.0
    router.read(ROUTER % (20, 180), 110.0)
    assert demand(fleet.block(110.0)) == pytest.approx(18 * 6.0 / 36)
    fleet.list(["new"], vouched=False)
    assert isnan(demand(fleet.block(111.0))), "there is a replica now: it is the one to tell"


def test_who_never_saw_a_replica_wakes_one() -> None:
    fleet = Fleet(stale_after=STALE)
    fleet.list([], vouched=True)
    router_of(fleet).read(ROUTER % (40, 0), 0.0)
    assert demand_of_nobody(fleet, 0.0) == 1.0


def test_a_router_that_is_silent_or_has_lost_its_metric_is_not_idle() -> None:
    fleet = Fleet(stale_after=STALE)
    fleet.list([], vouched=True)
    router = router_of(fleet)
    router.read(ROUTER % (3, 0), 0.0)
    assert demand_of_nobody(fleet, 0.0) > 0
    assert isnan(demand_of_nobody(fleet, STALE + 1))
    with pytest.raises(Exception, match="no router_in_flight"):
        router.read(b"router_renamed 3\n", 20.0)
    assert isnan(demand_of_nobody(fleet, 20.0))


def demand_of_nobody(fleet: Fleet, now: float) -> float:
    return fleet.block(now).get("fleet_replica_demand")


def test_a_router_is_no_reason_for_zero_while_discovery_fails() -> None:
    fleet = Fleet(stale_after=STALE)
    fleet.list_failed()
    router_of(fleet).read(ROUTER % (0, 0), 0.0)
    assert isnan(demand_of_nobody(fleet, 0.0))


def test_two_of_them_say_the_same() -> None:
    """One reads all along, one begins late: every gauge of both is equal."""
    early = fleet_of(busy(1.0), busy(2.0))
    for second in range(5, 60, 5):
        early.read("a", busy(1.0 + second, queue_seconds_total=100.0 + second), float(second))
        early.block(float(second))
    early.read("b", busy(3.0), 60.0)
    late = fleet_of(busy(56.0, queue_seconds_total=155.0), busy(3.0), now=60.0)
    ours, theirs = early.block(60.0), late.block(60.0)
    names = [name for name in theirs.layout.by_signal if not name.endswith("_total")]
    assert "fleet_replica_demand" in names
    for name in names:
        if name != "fleet_queue_to_compute_ratio":
            for series in theirs.layout.by_signal[name]:
                assert ours.get(name, **dict(series.labels)) == theirs.values[series.start], name


def test_the_layout_stays_while_the_same_things_are_told() -> None:
    fleet = fleet_of(busy(1.0))
    first = fleet.block(0.0).layout
    fleet.read("a", busy(2.0), 5.0)
    second = fleet.block(5.0)
    fleet.read("a", busy(3.0), 10.0)
    assert fleet.block(10.0).layout is second.layout
    assert len(second.layout.series) > len(first.series), "counters have begun"


def test_what_limits_the_replicas_and_how_full_the_fullest_is() -> None:
    def body(limit: str, reason: str, slots: float) -> bytes:
        decided = {f"replica_demand_info__limit__{limit}__reason__{reason}": 1.0}
        return busy(1.0, saturation_ratio__resource__slots=slots, **decided)

    fleet = fleet_of(body("slots", "load", 0.4), body("slots", "load", 0.9), body("slo", "slo", 0.1), None)
    block = fleet.block(0.0)
    assert block.get("fleet_saturation_ratio", resource="slots") == 0.9
    limited = {
        (one.label("limit"), one.label("reason")): block.values[one.start]
        for one in block.layout.find("fleet_decided_replicas")
    }
    assert limited == {("slots", "load"): 2.0, ("slo", "slo"): 1.0}, "the silent one isn't guessed"


def test_how_sidecars_fail_now_and_have_failed() -> None:
    fleet = fleet_of(busy(1.0), busy(1.0), None)
    assert not list(fleet.block(0.0).layout.find("fleet_failing_sidecars")), "nothing has failed yet"
    fleet.failed("b", "timeout")
    fleet.failed("c", "refused")
    block = fleet.block(1.0)
    assert block.get("fleet_failing_sidecars", result="timeout") == 1.0
    assert block.get("fleet_failing_sidecars", result="refused") == 1.0
    fleet.read("b", busy(1.0), 2.0)
    fleet.list(["a", "b"], vouched=True)
    block = fleet.block(2.0)
    assert block.get("fleet_failing_sidecars", result="timeout") == 0.0
    assert block.get("fleet_failing_sidecars", result="refused") == 0.0, "who isn't listed doesn't fail"
    assert block.get("fleet_reads_total", result="refused") == 1.0


def test_a_router_says_whether_it_is_understood() -> None:
    fleet = fleet_of(busy(1.0))
    assert isnan(fleet.block(0.0).get("fleet_router_up"))
    fleet.router = Router("http://r/metrics", selector("in_flight"))
    assert fleet.block(0.0).get("fleet_router_up") == 0.0
    fleet.router.read(b"in_flight 3\n", 0.0)
    assert fleet.block(1.0).get("fleet_router_up") == 1.0
    assert fleet.block(STALE + 1).get("fleet_router_up") == 0.0
