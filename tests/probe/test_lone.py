"""The gap of a lone request is taken from probes that were alone, and from no others."""

from __future__ import annotations

from math import nan

import pytest

from sidecar.probe.lone import ENOUGH, FIRST_TOKENS, LoneGap
from sidecar.probe.stream import Outcome
from sidecar.snapshot import EMPTY_BLOCK, Snapshot, block_of

LONG = Outcome(first=0.1, gaps=(0.01,) * 23, generated=24)
SHORT = Outcome(first=0.1, gaps=(0.02,) * 7, generated=8)


def shot(running: float = 0, waiting: float = 0, generated: float = 0, *, up: bool = True) -> Snapshot:
    labels = {"target": "t", "model_name": "m"}
    data = block_of(
        [
            ("requests_running", labels, running),
            ("requests_waiting", labels, waiting),
            ("generation_tokens_total", labels, generated),
        ]
    )
    return Snapshot("t", "vllm", 0.0, 0.0, 0, up, data, EMPTY_BLOCK)


def probe(lone: LoneGap, *during: Snapshot, outcome: Outcome = LONG, after: Snapshot | None = None) -> bool:
    lone.begin(shot())
    for snapshot in during:
        lone.watch(snapshot)
    lone.end(outcome)
    return lone.watch(after or shot(generated=outcome.generated))


def test_a_long_probe_alone_tells_the_gap_at_once() -> None:
    lone = LoneGap()
    assert lone.value is None
    assert probe(lone, shot(running=1), shot(running=1, generated=12))
    assert lone.value == pytest.approx(0.01)


@pytest.mark.parametrize(
    "during",
    [shot(running=2), shot(running=1, waiting=1), shot(up=False), shot(running=nan), shot(waiting=nan)],
    ids=["another runs", "another waits", "down", "running isn't told", "waiting isn't told"],
)
def test_a_probe_that_was_not_alone_tells_nothing(during: Snapshot) -> None:
    for place in ("during", "after"):
        lone = LoneGap()
        if place == "during":
            probe(lone, during)
        else:
            probe(lone, after=during)
        assert lone.value is None


@pytest.mark.parametrize("generated", [24 + 30, 0], ids=["another request", "another replica answered"])
def test_who_else_worked_between_two_polls_shows_in_the_tokens(generated: float) -> None:
    lone = LoneGap()
    assert not probe(lone, after=shot(generated=generated))
    assert lone.value is None


def test_where_no_tokens_are_told_the_gauges_decide() -> None:
    lone = LoneGap()
    assert probe(lone, after=shot(generated=nan))
    assert lone.value is not None


def test_a_busy_engine_is_not_asked_for_more() -> None:
    lone = LoneGap()
    lone.begin(shot(running=3))
    assert lone.tokens(8) == 8
    lone.end(LONG)
    assert not lone.watch(shot(generated=24)) and lone.value is None


def test_few_gaps_are_not_enough_and_add_up() -> None:
    lone = LoneGap()
    for needed in range(1, 4):
        probe(lone, outcome=SHORT)
        assert (lone.value is None) is (7 * needed < ENOUGH)
    assert lone.value == pytest.approx(0.02)


def test_one_odd_answer_does_not_count() -> None:
    lone = LoneGap()
    for gap in (0.02, 0.021, 0.5, 0.019, 0.001):
        probe(lone, outcome=Outcome(first=0.1, gaps=(gap,) * 7, generated=8))
    assert lone.value == pytest.approx(0.02)


def test_bundled_tokens_and_failures_tell_nothing_and_ask_for_more_three_times_only() -> None:
    lone = LoneGap()
    asked = []
    for outcome in (Outcome(first=0.1, generated=24), Outcome("timeout", generated=2), LONG, LONG):
        lone.begin(shot())
        asked.append(lone.tokens(8))
        lone.end(outcome if len(asked) < 3 else Outcome("failed"))
        lone.watch(shot())
    assert asked == [FIRST_TOKENS, FIRST_TOKENS, FIRST_TOKENS, 8]
    assert lone.value is None


def test_who_asks_for_more_anyhow_gets_it_and_a_known_gap_needs_no_more() -> None:
    lone = LoneGap()
    lone.begin(shot())
    assert lone.tokens(64) == 64
    lone.end(LONG)
    lone.watch(shot(generated=24))
    lone.begin(shot())
    assert lone.tokens(8) == 8


@pytest.mark.parametrize(
    "gaps",
    [(0.001,) * 12 + (0.02,) * 11, (0.001, 0.02) * 11, (0.01,) * 3],
    ids=["held back, then in haste", "in pairs", "too few"],
)
def test_a_stream_that_is_not_steady_tells_nothing(gaps: tuple[float, ...]) -> None:
    lone = LoneGap()
    for _ in range(5):
        assert not probe(lone, outcome=Outcome(first=0.1, gaps=gaps, generated=24))
    assert lone.value is None


def test_a_hiccup_or_two_shift_no_median() -> None:
    lone = LoneGap()
    assert probe(lone, outcome=Outcome(first=0.1, gaps=(0.001, 0.3, *(0.01,) * 21), generated=24))
    assert lone.value == 0.01


def test_another_process_is_measured_anew() -> None:
    lone = LoneGap()
    probe(lone)
    lone.forget()
    assert lone.value is None
    lone.begin(shot())
    assert lone.tokens(8) == FIRST_TOKENS
