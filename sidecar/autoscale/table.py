"""Verdicts as a table of 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean

from sidecar.autoscale.verdict import Verdict

Row = tuple[str, str, Verdict]
"""Scene, policy, verdict."""

_HEAD = "traffic          policy                 in SLO cost   most flaps recovers lost"
_RULE = "-" * len(_HEAD)


def table(rows: Iterable[Row]) -> str:
    """One line a run. `cost` is replica-hours over the oracle's."""
    return "\n".join([_HEAD, _RULE, *(_line(*row) for row in rows)]) + "\n"


def _line(scene: str, policy: str, verdict: Verdict) -> str:
    return (
        f"{scene:16.16} {policy:22.22} {verdict.attained:6.3f} ×{verdict.cost:<5.2f} {verdict.most:4d}"
        f" {verdict.flaps:5.3g} {recovered(verdict.recovery):>8} {verdict.lost:4d}"
    ).rstrip()


def recovered(seconds: float | None) -> str:
    """For a table; empty where there was nothing to recover from."""
    return "" if seconds is None else f"{seconds:.0f} s"


def markdown(rows: Sequence[Row], policies: Sequence[str]) -> str:
    """Scenes down, policies across, and their means."""
    scenes = list(dict.fromkeys(scene for scene, _, _ in rows))
    found = {(scene, policy): verdict for scene, policy, verdict in rows}
    lines = ["| traffic | " + " | ".join(policies) + " |", "|---" * (len(policies) + 1) + "|"]
    for scene in scenes:
        cells = [cell(found.get((scene, policy))) for policy in policies]
        lines.append(f"| {scene} | " + " | ".join(cells) + " |")
    lines.append("| **mean** | " + " | ".join(_means(rows, policies)) + " |")
    return "\n".join(lines) + "\n"


def cell(verdict: Verdict | None) -> str:
    """In one word each: inside the objectives, cost, most replicas, flaps, recovery."""
    if verdict is None:
        return ""
    event = "" if verdict.recovery is None else f" r{verdict.recovery:.0f}"
    return f"{verdict.attained:.3f} ×{verdict.cost:.2f} m{verdict.most} f{verdict.flaps:.2g}{event}"


def _means(rows: Sequence[Row], policies: Sequence[str]) -> Iterator[str]:
    for policy in policies:
        of = [verdict for _, name, verdict in rows if name == policy]
        if not of:
            yield ""
            continue
        yield (
            f"**{fmean(one.attained for one in of):.3f} ×{fmean(one.cost for one in of):.2f}"
            f" f{fmean(one.flaps for one in of):.1f}**"
        )
