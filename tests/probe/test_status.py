"""What the status page says of a probe that fails, and that it says nothing of one that doesn't."""

from __future__ import annotations

from typing import get_args

from sidecar.config.slos import SloSignal
from sidecar.outputs.web.objectives import SIGNAL_WORDS
from sidecar.outputs.web.problems import problems
from sidecar.probe import Figures, Outcome
from sidecar.probe.mends import MENDS
from sidecar.schema import PROBE_RESULTS
from sidecar.snapshot import EMPTY_BLOCK, Publication, Snapshot


def told(*outcomes: Outcome) -> list[tuple[str, str, str]]:
    figures = Figures("a")
    for outcome in outcomes:
        figures.record("m", outcome, "POST /v1/completions", stale_at=100.0)
    block = figures.block("vllm", 0.0)
    assert block is not None
    snapshot = Snapshot("a", "vllm", 0.0, 0.0, 0, True, EMPTY_BLOCK, EMPTY_BLOCK, (), (block,))
    return [(one.severity, one.what, one.mend) for one in problems(Publication(0.0, (snapshot,)), {})]


def test_a_probe_that_fails_is_a_problem_with_its_mend() -> None:
    good, shut = Outcome(first=0.1, generated=8), Outcome("unauthorized", "HTTP 401")
    assert told(good) == []
    assert told(shut, good) == [], "it was answered again"
    ((severity, what, mend),) = told(good, Outcome("timeout"), shut, shut)
    assert severity == "warn"
    assert what == "The last probe of m wasn't answered: unauthorized."
    assert mend == "Give credentials: `auth.bearer_token_file` or `auth.basic`."


def test_each_failure_has_a_mend_and_each_signal_its_words() -> None:
    assert set(MENDS) == set(PROBE_RESULTS) - {"ok"}
    assert set(SIGNAL_WORDS) == set(get_args(SloSignal))
