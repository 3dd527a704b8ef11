"""What came of a run, in a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from sidecar.autoscale.loop import Run
from sidecar.autoscale.objectives import GOAL, shares
from sidecar.autoscale.oracle import Oracle

_BUCKET = 30.0
_STEADY = 3  # buckets in a row that keep the goal: recovered


@dataclass(frozen=True, slots=True)
class Verdict:
    """`attained` is the share of requests inside both objectives, `cost` replica-hours over the oracle's,
    `flaps` changes of direction (of several runs their mean), `recovery` seconds from the scene's event until the
    goal held again (None: there was no event, or it never held)."""

    attained: float
    cost: float
    most: int
    flaps: float
    recovery: float | None
    lost: int


def judge(run: Run, oracle: Oracle) -> Verdict:
    asked = len(run.requests) + run.unfinished
    good = sum(kept for _, kept in run.requests)
    wanted = [sample.wanted for sample in run.samples]
    return Verdict(
        attained=good / asked if asked else 1.0,
        cost=run.replica_seconds / oracle.replica_seconds,
        most=max(wanted, default=0),
        flaps=flaps(wanted),
        recovery=recovery(run),
        lost=run.lost,
    )


def planned(oracle: Oracle) -> Verdict:
    """The oracle's own, as it was played."""
    return Verdict(oracle.attained, 1.0, max(oracle.sizes), flaps(oracle.sizes), None, 0)


def together(verdicts: Sequence[Verdict]) -> Verdict:
    """Of runs of one scene under one policy, by seed: means, the most replicas of all, recovery where the goal
    held again in all of them."""
    recoveries = [one.recovery for one in verdicts if one.recovery is not None]
    return Verdict(
        attained=fmean(one.attained for one in verdicts),
        cost=fmean(one.cost for one in verdicts),
        most=max(one.most for one in verdicts),
        flaps=fmean(one.flaps for one in verdicts),
        recovery=fmean(recoveries) if len(recoveries) == len(verdicts) else None,
        lost=sum(one.lost for one in verdicts),
    )


def flaps(sizes: Sequence[int]) -> int:
    """Changes of direction in a series of sizes."""
    moves = [after - before for before, after in pairwise(sizes) if after != before]
    return sum(before * after < 0 for before, after in pairwise(moves))


def recovery(run: Run) -> float | None:
    """Seconds from the event to the first of three half minutes in a row, of requests by when they were asked,
    that each kept the goal."""
    if run.scene.event is None:
        return None
    kept = shares(run.requests, run.scene.seconds, _BUCKET)
    first = int(run.scene.event // _BUCKET)
    for place in range(first, len(kept) - _STEADY + 1):
        if all(_holds(share, run.unfinished) for share in kept[place : place + _STEADY]):
            return place * _BUCKET - run.scene.event
    return None


def _holds(share: float | None, unfinished: int) -> bool:
    """Where nobody who asked was ever answered, nothing holds."""
    return share >= GOAL if share is not None else not unfinished
