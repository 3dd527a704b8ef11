"""Every traffic under every policy, as a Markdown page: what docs/autoscaling_results.md is written by."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from sidecar.autoscale.compared import COMPARED, DEMAND, DOUBLING, SLOWER, policy
from sidecar.autoscale.keda import Fallback
from sidecar.autoscale.loop import Tuning, run, tuning
from sidecar.autoscale.policy import Policy
from sidecar.autoscale.table import cell, markdown
from sidecar.autoscale.traffics import DESIGNED, FAULTY, HELD_BACK, SCENES, Scene
from sidecar.autoscale.verdict import Verdict, judge, together

Progress = Callable[[str], None]

_INTRO = """\
# The closed loop's figures

Written by `inference-sidecar simulate --report docs/autoscaling_results.md`;
[autoscaling.md](autoscaling.md) says what they mean. A fleet of simulated replicas (an 8B model on one large GPU
each), their sidecars, KEDA and the HPA in simulated time. Where nothing else is said, the HPA goes up by four
replicas a minute once half a minute has asked for it and down by one a minute after five minutes, from 1 to 16
replicas, and the cold start is two minutes.

Each cell, SEEDS: share of the requests inside both objectives
(first token within 1.5 s, 95 % of the gaps within 50 ms) × replica-hours over the oracle's, m most replicas,
f changes of direction, r seconds to recover from the scene's event. The oracle runs the fewest replicas that keep
the objectives and knows the traffic ahead by the cold start. Beside it stands who knows the present load exactly,
and meets the same cold start and HPA.
"""


@dataclass(frozen=True, slots=True)
class Section:
    """Scenes, each under each policy."""

    title: str
    scenes: tuple[Scene, ...]
    policies: tuple[Policy, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A scene before and after something was done about a weak point."""

    weak: str
    scene: str
    before: tuple[str, Policy, Tuning]
    after: tuple[str, Policy, Tuning]


SECTIONS = (
    Section("The traffics that the signal was designed on", DESIGNED, COMPARED),
    Section("Held back: nothing was tuned on these", HELD_BACK, COMPARED[:5]),
    Section("Faults", FAULTY, (DEMAND,)),
)


def _large(name: str) -> Policy:
    return policy(name, "replica_demand", 1.0, DOUBLING if name == "doubling" else SLOWER, maximum=64)


def _falling_back(replicas: int) -> Policy:
    fallback = Fallback(6, replicas, "currentReplicasIfHigher")
    return replace(DEMAND, spec=replace(DEMAND.spec, fallback=fallback))


_USUAL = tuning()
_BLIND_TO_TOKENS = tuning(gaps_from_tokens=False)
CHANGES = (
    Change(
        "runtime without gaps",
        "no-gaps",
        ("no gaps, no stretch", DEMAND, _BLIND_TO_TOKENS),
        ("gaps from what runs and tokens", DEMAND, _USUAL),
    ),
    Change(
        "runtime without gaps",
        "no-gaps-daily",
        ("no gaps, no stretch", DEMAND, _BLIND_TO_TOKENS),
        ("gaps from what runs and tokens", DEMAND, _USUAL),
    ),
    Change(
        "idle gap 40 % too low",
        "step",
        ("seed 4.9 ms", DEMAND, tuning(idle_gap=0.0049)),
        ("seed 8.1 ms, by a light probe", DEMAND, tuning(idle_gap=0.0081)),
    ),
    Change(
        "idle gap 50 % too high",
        "step",
        ("seed 12.2 ms", DEMAND, tuning(idle_gap=0.0122)),
        ("seed 8.1 ms, by a light probe", DEMAND, tuning(idle_gap=0.0081)),
    ),
    Change(
        "slots not told",
        "slots-bound",
        ("unknown", DEMAND, _USUAL),
        ("targets.capacity.slots: 24", DEMAND, replace(_USUAL, slots=24)),
    ),
    Change(
        "slots not told",
        "slots-bound",
        ("observed limit kept 10 min", DEMAND, _USUAL),
        ("kept for an hour", DEMAND, tuning(observed_kept=3600.0)),
    ),
    Change(
        "metrics away through a step",
        "prometheus-down",
        ("fallback.replicas: 2", DEMAND, _USUAL),
        ("fallback.replicas: 8", _falling_back(8), _USUAL),
    ),
    Change(
        "long prefill chunks",
        "long-chunks",
        ("utilisation 0.8", DEMAND, _USUAL),
        ("utilisation 0.7", DEMAND, tuning(target_utilisation=0.7)),
    ),
    Change(
        "clients that leave",
        "impatient",
        ("utilisation 0.8", DEMAND, _USUAL),
        ("utilisation 0.7", DEMAND, tuning(target_utilisation=0.7)),
    ),
    Change(
        "8 to 24 replicas at once",
        "large",
        ("up by two a minute", _large("slower"), _USUAL),
        ("doubling each minute", _large("doubling"), _USUAL),
    ),
)


Trial = tuple[Scene, Policy, Tuning, int]
"""One run to make; the last is the seed of its arrivals."""


def write_report(
    path: Path,
    *,
    sections: Sequence[Section] = SECTIONS,
    changes: Sequence[Change] = CHANGES,
    seeds: Sequence[int] = (1, 2, 3),
    progress: Progress = print,
) -> None:
    """Run everything, on all cores, and write the page as it grows. `progress` gets a line for each scene and
    policy."""
    parts = [_intro(seeds)]
    with ProcessPoolExecutor(initializer=_politely) as pool:
        runs = _Runs(pool, seeds, progress)
        for section in sections:
            for scene in section.scenes:
                for one in section.policies:
                    runs.ask(scene, one, _USUAL)
        for change in changes:
            for _, one, tuned in (change.before, change.after):
                runs.ask(SCENES[change.scene], one, tuned)
        for section in sections:
            rows = [
                (scene.name, one.name, runs.verdict(scene, one, _USUAL))
                for scene in section.scenes
                for one in section.policies
            ]
            names = [one.name for one in section.policies]
            parts.append(f"\n## {section.title}\n\n{markdown(rows, names)}")
            path.write_text("".join(parts), "utf-8")
        if changes:
            lines = [_line(change, runs) for change in changes]
            head = "| weak point | traffic | before | after |\n|---|---|---|---|\n"
            parts.append(f"\n## Weak points, before and after\n\n{head}{''.join(lines)}")
            path.write_text("".join(parts), "utf-8")


class _Runs:
    """What is asked for, each run once however often it is asked for."""

    def __init__(self, pool: Executor, seeds: Sequence[int], progress: Progress) -> None:
        self._pool, self._seeds, self._progress = pool, seeds, progress
        self._asked: dict[str, list[Future[Verdict]]] = {}

    def ask(self, scene: Scene, policy: Policy, tuned: Tuning) -> None:
        key = _key(scene, policy, tuned)
        if key not in self._asked:
            trials = [(scene, policy, tuned, seed) for seed in self._seeds]
            self._asked[key] = [self._pool.submit(_try, trial) for trial in trials]

    def verdict(self, scene: Scene, policy: Policy, tuned: Tuning) -> Verdict:
        verdict = together([one.result() for one in self._asked[_key(scene, policy, tuned)]])
        self._progress(f"{scene.name} / {policy.name}: {cell(verdict)}")
        return verdict


def _key(scene: Scene, policy: Policy, tuned: Tuning) -> str:
    return f"{scene.name} {policy.name} {policy.spec} {tuned}"


def _try(trial: Trial) -> Verdict:
    scene, policy, tuned, seed = trial
    return judge(run(scene, policy, tuned, seed=seed))


def _politely() -> None:
    """Minutes of every core: whoever works beside it goes first."""
    if hasattr(os, "nice"):
        os.nice(5)


def _intro(seeds: Sequence[int]) -> str:
    many = "one seed" if len(seeds) == 1 else f"the mean of {len(seeds)} seeds of the arrivals"
    return _INTRO.replace("SEEDS", many)


def _line(change: Change, runs: _Runs) -> str:
    cells = [
        f"{what}: {cell(runs.verdict(SCENES[change.scene], one, tuned))}"
        for what, one, tuned in (change.before, change.after)
    ]
    return f"| {change.weak} | {change.scene} | {' | '.join(cells)} |\n"
