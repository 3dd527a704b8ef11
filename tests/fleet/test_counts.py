"""The fleet's counters: each target's increases, whatever it is silent for, and whoever is silent beside it."""

from __future__ import annotations

from sidecar.fleet.fleet import Fleet
from tests.fleet.world import MODEL, busy, down, several


def fleet_of(body: bytes) -> Fleet:
    fleet = Fleet()
    fleet.list(["a"], vouched=True)
    fleet.read("a", body, 0.0)
    return fleet


def total(fleet: Fleet, signal: str = "arrivals_total") -> float:
    return fleet.block(0.0).get(f"fleet_{signal}", model_name=MODEL)


def beside(**arrivals: float | None) -> bytes:
    """A sidecar's page with several targets and what each has counted; None: it tells nothing now."""
    counted = {target: count for target, count in arrivals.items() if count is not None}
    return several(
        up={target: target in counted for target in arrivals},
        replica_demand=dict.fromkeys(counted, 1.0),
        arrivals_total=counted,
    )


def test_what_a_sidecar_counts_unheard_is_counted_once_it_is_heard_again() -> None:
    fleet = fleet_of(busy(arrivals_total=1000.0))
    fleet.failed("a", "timeout")
    fleet.read("a", busy(arrivals_total=1600.0), 300.0)
    assert total(fleet) == 600.0


def test_a_target_that_is_back_adds_what_it_did_meanwhile_and_not_its_whole_life() -> None:
    fleet = fleet_of(busy(arrivals_total=1000.0))
    fleet.read("a", down(), 5.0)
    fleet.read("a", down(), 10.0)
    fleet.read("a", busy(arrivals_total=1010.0), 15.0)
    assert total(fleet) == 10.0


def test_a_target_that_restarted_unheard_adds_what_its_new_process_has_done() -> None:
    fleet = fleet_of(busy(arrivals_total=1000.0))
    fleet.read("a", down(), 5.0)
    fleet.read("a", busy(arrivals_total=4.0), 10.0)
    assert total(fleet) == 4.0


def test_a_target_that_falls_silent_adds_nothing_of_the_one_beside_it() -> None:
    fleet = fleet_of(beside(x=1000.0, y=500.0))
    fleet.read("a", beside(x=1001.0, y=None), 5.0)
    assert total(fleet) == 1.0
    fleet.read("a", beside(x=1002.0, y=520.0), 10.0)
    assert total(fleet) == 22.0


def test_a_target_that_restarts_beside_another_adds_only_its_own_new_count() -> None:
    fleet = fleet_of(beside(x=1000.0, y=500.0))
    fleet.read("a", beside(x=1002.0, y=3.0), 5.0)
    assert total(fleet) == 5.0


def test_a_target_that_is_met_in_the_middle_of_its_life_begins_there() -> None:
    fleet = fleet_of(beside(x=1000.0, y=None))
    fleet.read("a", beside(x=1000.0, y=700.0), 5.0)
    assert total(fleet) == 0.0
    fleet.read("a", beside(x=1000.0, y=705.0), 10.0)
    assert total(fleet) == 5.0
    fleet.read("a", beside(x=1000.0, y=705.0, z=900.0), 15.0)
    assert total(fleet) == 5.0


def test_replicas_behind_one_address_add_nothing_while_they_are_known_and_nothing_of_another_afterwards() -> (
    None
):
    fleet = fleet_of(beside(x=1000.0, y=500.0))
    up, load = {"x": True, "y": True}, {"x": 1.0}
    conflict = several(up=up, conflicts=("y",), replica_demand=load, arrivals_total={"x": 1001.0})
    fleet.read("a", conflict, 5.0)
    fleet.read("a", conflict, 10.0)
    fleet.read("a", beside(x=1002.0, y=9000.0), 15.0)
    assert total(fleet) == 2.0, "the replica that is left has another past"
    fleet.read("a", beside(x=1002.0, y=9003.0), 20.0)
    assert total(fleet) == 5.0


def test_a_series_that_a_known_target_begins_counts_from_its_beginning() -> None:
    fleet = fleet_of(busy())
    fleet.read("a", busy(requests_total__outcome__error=2.0), 5.0)
    assert fleet.block(5.0).get("fleet_requests_total", model_name=MODEL, outcome="error") == 2.0
