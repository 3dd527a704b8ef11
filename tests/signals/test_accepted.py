"""Work that counts: only what was done while every objective was kept."""

from __future__ import annotations

from math import isnan, nan

from sidecar.signals import Signals
from tests.signals.worlds import FULL, Replica, burn_rates, fed, present


def test_only_work_inside_every_objective_is_accepted() -> None:
    signals = Signals()
    replica = Replica()
    poll = FULL | {"running": 4.0}
    earned = 0.0
    for place, rates in enumerate(((0.0, 1.0), (0.2, 0.9), (0.5, 1.1), (nan, 0.0), (0.0, 0.0))):
        replica.extra = (burn_rates(*rates),)
        poll = poll | {"tokens": 100.0 * place, "finished": 2.0 * place}
        block = fed(signals, replica.snapshot(2.0 * place, poll))
        earned += 100.0 if place and max(rates) <= 1 and not isnan(rates[0]) else 0.0
        assert block.get("accepted_generation_tokens_total") == earned
        assert block.get("accepted_requests_total") == earned / 50
    assert earned == 200


def test_an_objective_of_no_model_judges_all_and_one_of_another_model_none() -> None:
    poll = FULL | {"running": 4.0}
    for model, exists in (("", True), ("other", False)):
        replica = Replica(extra=(burn_rates(0.0, model=model),))
        block = fed(Signals(), replica.snapshot(0, poll))
        assert ("accepted_requests_total" in present(block)) is exists
