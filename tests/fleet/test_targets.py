"""A sidecar with several targets: each is a replica of its own, heard or not."""

from __future__ import annotations

import asyncio
import json
from math import isnan

import aiohttp
import pytest

from sidecar.fleet.discover import Static
from sidecar.fleet.fleet import Fleet
from sidecar.fleet.member import CONFLICT, DOWN, MUTE, Member
from sidecar.fleet.role import FleetRole, FleetSettings
from sidecar.outputs.prometheus.page import render_blocks
from sidecar.snapshot import Block
from tests.fleet.test_sum import STALE, demand, fleet_of, replicas
from tests.fleet.world import MODEL, TAIL, busy, several, sidecars
from tests.pipeline.test_replicas import replicas as processes
from tests.pipeline.worlds import VLLM, Address

UP = {"x": True, "y": True}
BOTH = several(up=UP, replica_demand={"x": 1.0, "y": 2.0})
#: Several replicas answer under the address of y.
CONFLICTING = several(up=UP, conflicts=("y",), replica_demand={"x": 1.0})


def reasons(fleet: Fleet, now: float = 0.0) -> dict[str, tuple[str, str]]:
    (member,) = fleet.members.values()
    states = member.targets(now, STALE)
    return {target: (state, member.why_silent(target, now, STALE)) for target, state in states.items()}


def test_each_target_is_a_replica() -> None:
    block = fleet_of(BOTH, busy(1.0)).block(0.0)
    assert replicas(block) == (3, 3, 3)
    assert demand(block) == 4.0


@pytest.mark.parametrize("vouched", [True, False])
def test_a_target_in_conflict_is_not_heard_and_its_sidecar_goes_on(vouched: bool) -> None:
    fleet = fleet_of(BOTH, vouched=vouched)
    fleet.read("a", CONFLICTING, 1.0)
    block = fleet.block(1.0)
    assert replicas(block) == (2, 2, 1)
    assert demand(block) == 2.0, "it is taken to need what the other needs"
    assert reasons(fleet, 1.0) == {"x": ("serving", ""), "y": ("blind", CONFLICT)}


@pytest.mark.parametrize("vouched", [True, False])
def test_one_that_never_told_is_counted_as_well_so_that_every_process_says_the_same(vouched: bool) -> None:
    block = fleet_of(CONFLICTING, vouched=vouched).block(0.0)
    assert replicas(block) == (2, 2, 1)
    assert demand(block) == 2.0
    two = several(up=UP, conflicts=("x", "y"))
    block = fleet_of(two, busy(3.0), vouched=vouched).block(0.0)
    assert replicas(block) == (3, 3, 1)
    assert demand(block) == 9.0


def test_a_conflict_of_one_signal_silences_no_target() -> None:
    fleet = fleet_of(several(up=UP, conflicts=("y",), replica_demand={"x": 1.0, "y": 2.0}))
    assert replicas(fleet.block(0.0)) == (2, 2, 2)
    assert demand(fleet.block(0.0)) == 3.0


def test_a_real_sidecar_whose_address_is_a_service_is_blind_and_not_about_to_start() -> None:
    address, two, levels = Address(VLLM), processes(VLLM, [300.0, 200.0]), [300.0, 200.0]
    for tick in range(20):
        levels[tick % 2] += 0.05
        snapshot = address.read(two[tick % 2].page(levels[tick % 2]))
    fleet = fleet_of(render_blocks(snapshot.blocks) + TAIL, vouched=False)
    assert reasons(fleet) == {"local": ("blind", CONFLICT)}
    assert replicas(fleet.block(0.0)) == (1, 1, 0)


@pytest.mark.parametrize(("vouched", "ready"), [(True, 2), (False, 1)])
def test_one_that_is_down_is_taken_to_serve_where_its_pod_is_ready(vouched: bool, ready: int) -> None:
    fleet = fleet_of(BOTH, vouched=vouched)
    # What it last told is held for some seconds.
    fleet.read("a", several(up={"x": True, "y": False}, replica_demand={"x": 1.0, "y": 2.0}), 1.0)
    block = fleet.block(1.0)
    assert replicas(block) == (2, ready, 1)
    assert demand(block) == ready
    assert reasons(fleet, 1.0)["y"] == (("blind", DOWN) if vouched else ("starting", ""))


def test_one_that_is_up_and_says_nothing_more_is_not_heard() -> None:
    fleet = fleet_of(BOTH, vouched=False)
    fleet.read("a", several(up=UP, replica_demand={"x": 1.0}), 1.0)
    assert reasons(fleet, 1.0)["y"] == ("blind", MUTE)
    assert demand(fleet.block(1.0)) == 2.0


def test_one_that_never_has_a_load_is_no_replica() -> None:
    fleet = fleet_of(several(up=UP, replica_demand={"x": 1.0}))
    assert replicas(fleet.block(0.0))[1:] == (1, 1)
    assert demand(fleet.block(0.0)) == 1.0


def test_one_that_has_left_the_config_counts_no_more() -> None:
    fleet = fleet_of(BOTH)
    fleet.read("a", several(up={"x": True}, replica_demand={"x": 1.0}), 1.0)
    assert replicas(fleet.block(1.0)) == (1, 1, 1)
    assert demand(fleet.block(1.0)) == 1.0


def test_a_sidecar_that_falls_silent_takes_its_targets_along() -> None:
    fleet = fleet_of(BOTH, busy(1.0), vouched=False)
    fleet.read("b", busy(1.0), 20.0)
    block = fleet.block(20.0)
    assert replicas(block) == (3, 3, 1)
    assert demand(block) == 3.0
    assert fleet.members["a"].state(20.0, STALE) == "blind"
    assert fleet.members["a"].why_silent("y", 20.0, STALE) == "", "its own failure says why"


def test_a_member_that_was_never_read() -> None:
    member = Member("a", vouched=True)
    assert member.state(0.0, STALE) == "blind"
    assert member.targets(0.0, STALE) == {}
    block: Block = fleet_of(None).block(0.0)
    assert isnan(demand(block)) and replicas(block) == (1, 1, 0)


def test_the_role_names_the_target_and_the_mend() -> None:
    async def story() -> None:
        async with sidecars(CONFLICTING) as one, aiohttp.ClientSession() as session:
            source = Static((one[0].address,))
            role = FleetRole(FleetSettings(source, listen="127.0.0.1:0", interval=0.2, timeout=0.2))
            await role.start()
            try:
                async with asyncio.timeout(15):
                    while not (told := await members(session, role))["targets"]:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                assert told["state"] == "serving"
                assert told["targets"] == {
                    "x": {"state": "serving", "detail": ""},
                    "y": {"state": "blind", "detail": CONFLICT},
                }
                assert "headless service" in CONFLICT
            finally:
                await role.close()

    async def members(session: aiohttp.ClientSession, role: FleetRole) -> dict[str, object]:
        async with session.get(role.url + "/v1/fleet") as answer:
            (member,) = json.loads(await answer.text())["members"]
            return dict(member)

    asyncio.run(story())


def test_models_that_the_sidecar_does_not_serve_are_not_raised_by_its_conflict() -> None:
    fleet = fleet_of(CONFLICTING, busy(1.0))
    other = several(up={"z": True}, model="other", replica_demand={"z": 1.0})
    fleet.list(["a", "b", "c"], vouched=True)
    fleet.read("c", other, 0.0)
    block = fleet.block(0.0)
    assert block.get("fleet_replica_demand", model_name="other") == 1.0
    assert block.get("fleet_replica_demand", model_name=MODEL) == 3.0
