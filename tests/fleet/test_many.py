"""Many sidecars before the fleet role's own process; tests/fleet/thousand.py measures a thousand."""

from __future__ import annotations

from tests.fleet.thousand import measure


def test_all_of_them_are_heard_in_every_round() -> None:
    cost = measure(60, 2.0, interval=1.0)
    assert (cost.answering, cost.failed) == (60, 0)
    assert cost.resident < 300 * 2**20
