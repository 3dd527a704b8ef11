"""The fewest replicas that keep the objectives, for somebody who knows the traffic ahead by the cold start."""

from __future__ import annotations

from math import ceil

from sidecar.autoscale.objectives import USUAL, Objectives
from sidecar.autoscale.traffics import Kind, Scene
from sidecar.simulator.fleet import Fleet
from sidecar.simulator.replica import ReplicaConfig
from sidecar.simulator.simulation import Simulation
from sidecar.simulator.traffic import Steady, Traffic

GOAL = 0.95
_STEP = 15.0


def needs(scene: Scene) -> list[int]:
    """The oracle's replicas every 15 s: what the traffic needs at any moment from then on until a replica that is
    started then is ready; they are paid for while they start, too."""
    moments = [place * _STEP for place in range(int(scene.seconds / _STEP))]
    wanted = [max(1, ceil(scene.need_at(moment) - 1e-9)) for moment in moments]
    ahead = int(scene.cold_start / _STEP) + 1
    return [max(wanted[place : place + ahead]) for place in range(len(wanted))]


def replica_seconds(scene: Scene) -> float:
    return sum(needs(scene)) * _STEP


def sustained_rate(
    kind: Kind,
    objectives: Objectives = USUAL,
    *,
    replicas: int = 4,
    seconds: float = 300.0,
) -> float:
    """Requests a second and replica of which 95 % keep the objectives, within 3 %, in a steady state."""
    low, high = 0.0, 1.0
    while _attained(kind, high, objectives, replicas, seconds) >= GOAL:
        low, high = high, high * 2
    while high - low > 0.03 * high:
        middle = (low + high) / 2
        if _attained(kind, middle, objectives, replicas, seconds) >= GOAL:
            low = middle
        else:
            high = middle
    return low


def _attained(kind: Kind, rate: float, objectives: Objectives, replicas: int, seconds: float) -> float:
    fleet = Fleet(ReplicaConfig(engine=kind.engine), replicas)
    traffic = Traffic(Steady(rate * replicas), kind.shape, seed=1, until=seconds)
    simulation = Simulation(fleet, traffic, keep=True)
    simulation.advance(seconds + 60.0)
    settled = [one for one in simulation.ended if one.asked_ns > 0.3 * seconds * 1e9]
    left = fleet.in_flight
    return sum(map(objectives.kept, settled)) / (len(settled) + left) if settled else 0.0
