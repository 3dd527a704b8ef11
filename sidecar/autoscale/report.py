"""Every traffic under every policy, as a Markdown page: what docs/autoscaling_results.md is written by."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from pathlib import Path

from sidecar.autoscale.compared import CHANGES, SECTIONS, Change, Column, Section
from sidecar.autoscale.loop import Tuning, run
from sidecar.autoscale.oracle import Oracle, oracle
from sidecar.autoscale.policy import Policy
from sidecar.autoscale.table import cell, markdown
from sidecar.autoscale.traffics import SCENES, Scene
from sidecar.autoscale.verdict import Verdict, judge, planned, together

Progress = Callable[[str], None]

_ORACLE = "oracle"

_INTRO = """\
# The closed loop's figures

Written by `inference-sidecar simulate --report docs/autoscaling_results.md`;
[autoscaling.md](autoscaling.md) says what they mean. A fleet of simulated replicas (an 8B model on one large GPU
each), their sidecars, KEDA and the HPA in simulated time. Where nothing else is said, all is as shipped: a target
utilisation of 0.9; the HPA goes up by four replicas or a half more each minute once half a minute has asked for
it, and down by one or a quarter a minute after ten minutes, from 1 to 16 replicas. The cold start is two minutes.

Each cell, SEEDS: share of the requests inside both objectives
(first token within 1.5 s, 95 % of the gaps within 50 ms) × replica-hours over the oracle's, m most replicas,
f changes of direction, r seconds to recover from the scene's event. The oracle runs the fewest replicas that keep
the objectives and knows the traffic ahead by the cold start; its plan is played, too. Beside it stands who knows
the present load exactly, and meets the same cold start and HPA.
"""


Trial = tuple[Scene, Policy, Tuning, int, Oracle]
"""One run to make, with the seed of its arrivals and the plan that it is held against."""


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
        scenes = [scene for section in sections for scene in section.scenes]
        runs.plan(dict.fromkeys([*scenes, *(SCENES[change.scene] for change in changes)]))
        for section in sections:
            for scene in section.scenes:
                for column in section.columns:
                    runs.ask(scene, column)
        for change in changes:
            for column in (change.before, change.after):
                runs.ask(SCENES[change.scene], column)
        for section in sections:
            rows = [
                row
                for scene in section.scenes
                for row in (
                    (scene.name, _ORACLE, runs.of_oracle(scene)),
                    *((scene.name, column.name, runs.verdict(scene, column)) for column in section.columns),
                )
            ]
            names = [_ORACLE, *(column.name for column in section.columns)]
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
        self._plans: dict[str, list[Future[Oracle]]] = {}

    def plan(self, scenes: Iterable[Scene]) -> None:
        """Ask for the oracles' plans; before anything else, as all runs are held against them."""
        for scene in scenes:
            self._plans[scene.name] = [self._pool.submit(_plan, (scene, seed)) for seed in self._seeds]

    def of_oracle(self, scene: Scene) -> Verdict:
        return together([planned(one.result()) for one in self._plans[scene.name]])

    def ask(self, scene: Scene, column: Column) -> None:
        key = _key(scene, column)
        if key not in self._asked:
            plans = [one.result() for one in self._plans[scene.name]]
            self._asked[key] = [
                self._pool.submit(_try, (scene, column.policy, column.tuned, seed, plan))
                for seed, plan in zip(self._seeds, plans, strict=True)
            ]

    def verdict(self, scene: Scene, column: Column) -> Verdict:
        verdict = together([one.result() for one in self._asked[_key(scene, column)]])
        self._progress(f"{scene.name} / {column.name}: {cell(verdict)}")
        return verdict


def _key(scene: Scene, column: Column) -> str:
    return f"{scene.name} {column.policy.spec} {column.tuned}"


def _try(trial: Trial) -> Verdict:
    scene, policy, tuned, seed, plan = trial
    return judge(run(scene, policy, tuned, seed=seed), plan)


def _plan(of: tuple[Scene, int]) -> Oracle:
    scene, seed = of
    return oracle(scene, seed=seed)


def _politely() -> None:
    """Minutes of every core: whoever works beside it goes first."""
    if hasattr(os, "nice"):
        os.nice(5)


def _intro(seeds: Sequence[int]) -> str:
    many = "one seed" if len(seeds) == 1 else f"the mean of {len(seeds)} seeds of the arrivals"
    return _INTRO.replace("SEEDS", many)


def _line(change: Change, runs: _Runs) -> str:
    cells = [
        f"{column.name}: {cell(runs.verdict(SCENES[change.scene], column))}"
        for column in (change.before, change.after)
    ]
    return f"| {change.weak} | {change.scene} | {' | '.join(cells)} |\n"
