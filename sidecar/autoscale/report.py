"""Every traffic under every policy, as a Markdown page: what docs/autoscaling_results.md is written by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sidecar.autoscale.compared import COMPARED, DEMAND, DEMAND_FASTER, policy
from sidecar.autoscale.loop import Tuning, run, tuning
from sidecar.autoscale.policy import Policy
from sidecar.autoscale.table import Row, markdown
from sidecar.autoscale.traffics import DESIGNED, FAULTY, HELD_BACK, WEAK, Scene
from sidecar.autoscale.verdict import judge

Progress = Callable[[str], None]

_INTRO = """\
# The closed loop's figures

Written by `inference-sidecar simulate --report docs/autoscaling_results.md`;
[autoscaling.md](autoscaling.md) says what they mean. A fleet of simulated replicas (one H100-sized GPU each, an
8B model), their sidecars, KEDA and
the HPA in simulated time; the HPA goes up by two replicas a minute and down by one a minute after five minutes,
the cold start is two minutes, where nothing else is said.

Each cell: share of the requests inside both objectives (first token within 1.5 s, 95 % of the gaps within
50 ms) × replica-hours over the oracle's, m most replicas, f changes of direction, r seconds to recover from the
scene's event. The oracle runs the fewest replicas that keep the objectives and knows the traffic ahead by the
cold start.
"""


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    text: str
    scenes: tuple[Scene, ...]
    policies: tuple[Policy, ...]


SECTIONS = (
    Section("The traffics that the signal was designed on", "", DESIGNED, COMPARED),
    Section("Held back", "Nothing was tuned on these.", HELD_BACK, COMPARED),
    Section("Faults", "", FAULTY, (DEMAND, DEMAND_FASTER)),
    Section(
        "Weak points", "", WEAK, (DEMAND, policy("up to 64 replicas", "replica_demand", 1.0, maximum=64))
    ),
)


def write_report(
    path: Path,
    *,
    sections: Sequence[Section] = SECTIONS,
    tuned: Tuning | None = None,
    progress: Progress = print,
) -> None:
    """Run everything and write the page. `progress` gets a line for each run."""
    parts = [_INTRO]
    for section in sections:
        rows = list(_rows(section, tuned or tuning(), progress))
        names = [one.name for one in section.policies]
        text = f"\n{section.text}\n" if section.text else ""
        parts.append(f"\n## {section.title}\n{text}\n{markdown(rows, names)}")
        path.write_text("".join(parts), "utf-8")


def _rows(section: Section, tuned: Tuning, progress: Progress) -> Iterator[Row]:
    for scene in section.scenes:
        for one in section.policies:
            verdict = judge(run(scene, one, tuned))
            progress(
                f"{scene.name} / {one.name}: {verdict.attained:.3f} ×{verdict.cost:.2f} f{verdict.flaps}"
            )
            yield scene.name, one.name, verdict
