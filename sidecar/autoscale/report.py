"""Every traffic under every policy, as a Markdown page: what docs/autoscaling_results.md is written by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sidecar.autoscale.compared import COMPARED, DEMAND, DOUBLING, SLOWER, policy
from sidecar.autoscale.keda import Fallback
from sidecar.autoscale.loop import Tuning, run, tuning
from sidecar.autoscale.policy import Policy
from sidecar.autoscale.table import Row, cell, markdown
from sidecar.autoscale.traffics import DESIGNED, FAULTY, HELD_BACK, SCENES, Scene
from sidecar.autoscale.verdict import judge

Progress = Callable[[str], None]

_INTRO = """\
# The closed loop's figures

Written by `inference-sidecar simulate --report docs/autoscaling_results.md`;
[autoscaling.md](autoscaling.md) says what they mean. A fleet of simulated replicas (an 8B model on one large GPU
each), their sidecars, KEDA and the HPA in simulated time. Where nothing else is said, the HPA goes up by four
replicas a minute once half a minute has asked for it and down by one a minute after five minutes, from 1 to 16
replicas, and the cold start is two minutes.

Each cell: share of the requests inside both objectives (first token within 1.5 s, 95 % of the gaps within
50 ms) × replica-hours over the oracle's, m most replicas, f changes of direction, r seconds to recover from the
scene's event. The oracle runs the fewest replicas that keep the objectives and knows the traffic ahead by the
cold start. Beside it stands who knows the present load exactly, and meets the same cold start and HPA.
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


def write_report(
    path: Path,
    *,
    sections: Sequence[Section] = SECTIONS,
    changes: Sequence[Change] = CHANGES,
    progress: Progress = print,
) -> None:
    """Run everything and write the page as it grows. `progress` gets a line for each run."""
    parts = [_INTRO]
    for section in sections:
        rows = list(_rows(section, progress))
        names = [one.name for one in section.policies]
        parts.append(f"\n## {section.title}\n\n{markdown(rows, names)}")
        path.write_text("".join(parts), "utf-8")
    if changes:
        lines = [_line(one, progress) for one in changes]
        head = "| weak point | traffic | before | after |\n|---|---|---|---|\n"
        parts.append(f"\n## Weak points, before and after\n\n{head}{''.join(lines)}")
        path.write_text("".join(parts), "utf-8")


def _rows(section: Section, progress: Progress) -> Iterator[Row]:
    for scene in section.scenes:
        for one in section.policies:
            verdict = judge(run(scene, one, _USUAL))
            progress(f"{scene.name} / {one.name}: {cell(verdict)}")
            yield scene.name, one.name, verdict


def _line(change: Change, progress: Progress) -> str:
    cells = []
    for what, one, tuned in (change.before, change.after):
        verdict = judge(run(SCENES[change.scene], one, tuned))
        progress(f"{change.scene} / {what}: {cell(verdict)}")
        cells.append(f"{what}: {cell(verdict)}")
    return f"| {change.weak} | {change.scene} | {' | '.join(cells)} |\n"
