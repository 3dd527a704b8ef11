"""A run as a picture: replicas wanted, ready and of the oracle; the share inside the objectives; what waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from sidecar.autoscale.loop import Run
from sidecar.autoscale.objectives import GOAL, shares
from sidecar.autoscale.oracle import STEP_SECONDS, Oracle
from sidecar.autoscale.table import recovered
from sidecar.autoscale.verdict import Verdict

_WIDTH, _LEFT, _RIGHT = 880, 60, 30
_PANEL, _GAP, _TOP = 150, 44, 64
_BUCKET = 30.0
_STYLE = """
text{font:12px system-ui,sans-serif;fill:#24292f}.t{font-size:15px;font-weight:600}.m{fill:#57606a}
.g{stroke:#d0d7de;stroke-width:1}.l{fill:none;stroke-width:1.8}.w{stroke:#0550ae}.r{stroke:#1a7f37}
.o{stroke:#9a6700;stroke-dasharray:5 4}.a{stroke:#1a7f37}.q{stroke:#bc4c00}.e{stroke:#cf222e;stroke-dasharray:2 3}
"""

Points = Sequence[tuple[float, float]]


def svg(run: Run, verdict: Verdict, oracle: Oracle) -> str:
    """A whole SVG document; nothing in it needs a script or a network."""
    seconds = run.scene.seconds
    height = _TOP + 3 * (_PANEL + _GAP)
    wanted = [(one.second, float(one.wanted)) for one in run.samples]
    ready = [(one.second, float(one.ready)) for one in run.samples]
    planned = [(place * STEP_SECONDS, float(size)) for place, size in enumerate(oracle.sizes)]
    good = [
        (place * _BUCKET, share)
        for place, share in enumerate(shares(run.requests, run.scene.seconds, _BUCKET))
        if share is not None
    ]
    waiting = [(one.second, float(one.waiting)) for one in run.samples]
    most = max(value for _, value in (*wanted, *ready, *planned, (0.0, 1.0)))
    queue = max([value for _, value in waiting] + [1.0])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        f'<text class="t" x="{_LEFT}" y="24">{escape(run.scene.name)}: {escape(run.scene.what)}</text>',
        f'<text class="m" x="{_LEFT}" y="42">{escape(_summary(run, verdict))}</text>',
        *_panel(
            0,
            "replicas",
            most,
            seconds,
            [("o", "oracle", planned), ("r", "ready", ready), ("w", "wanted", wanted)],
            run.scene.event,
        ),
        *_panel(1, "share inside the objectives", 1.0, seconds, [("a", "", good)], run.scene.event, GOAL),
        *_panel(2, "requests that wait", queue, seconds, [("q", "", waiting)], run.scene.event),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _summary(run: Run, verdict: Verdict) -> str:
    event = "" if verdict.recovery is None else f", recovers in {recovered(verdict.recovery)}"
    return (
        f"{run.policy.name}: {verdict.attained:.1%} inside both objectives, {verdict.cost:.2f} × the oracle's"
        f" replica-hours, flaps: {verdict.flaps}{event}"
    )


def _panel(
    place: int,
    title: str,
    most: float,
    seconds: float,
    lines: Sequence[tuple[str, str, Points]],
    event: float | None,
    goal: float | None = None,
) -> Iterator[str]:
    top = _TOP + place * (_PANEL + _GAP)
    bottom = top + _PANEL

    def x(second: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * second / seconds

    def y(value: float) -> float:
        return bottom - (_PANEL - 14) * value / most

    yield f'<text x="{_LEFT}" y="{top - 4}">{escape(title)}</text>'
    for value in (0.0, most / 2, most):
        yield f'<line class="g" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
        yield f'<text class="m" x="{_LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>'
    for minute in range(0, int(seconds // 60) + 1, 10):
        yield (
            f'<text class="m" x="{x(minute * 60):.1f}" y="{bottom + 15}" text-anchor="middle">{minute} min</text>'
        )
    if event is not None:
        yield f'<line class="e" x1="{x(event):.1f}" x2="{x(event):.1f}" y1="{top}" y2="{bottom}"/>'
    if goal is not None:
        yield f'<line class="l o" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(goal):.1f}" y2="{y(goal):.1f}"/>'
    for order, (style, name, points) in enumerate(lines):
        path = " ".join(f"{x(second):.1f},{y(value):.1f}" for second, value in points)
        yield f'<polyline class="l {style}" points="{path}"/>'
        if name:
            at = _WIDTH - _RIGHT - 230 + 80 * order
            yield f'<line class="l {style}" x1="{at}" x2="{at + 20}" y1="{top - 8}" y2="{top - 8}"/>'
            yield f'<text x="{at + 25}" y="{top - 4}">{escape(name)}</text>'
