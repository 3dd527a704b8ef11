"""When a replica may go."""

from __future__ import annotations

from math import isnan

from sidecar.signals import Drain
from sidecar.signals.drain import in_flight
from tests.signals.worlds import EMPTY_POLL, Replica

IDLE, BUSY = EMPTY_POLL, EMPTY_POLL | {"running": 2.0, "waiting": 1.0}


def test_what_is_in_flight_is_counted_over_all_models() -> None:
    replica = Replica()
    assert in_flight(replica.snapshot(0, IDLE)) == 0
    assert in_flight(replica.snapshot(0, {"a": BUSY, "b": BUSY, "c": IDLE})) == 6


def test_what_is_not_known_is_not_0() -> None:
    replica = Replica()
    assert isnan(in_flight(replica.down(0)))
    assert isnan(in_flight(replica.snapshot(0, IDLE, up=False)))
    assert isnan(in_flight(replica.snapshot(0, {"waiting": 0.0, "finished": 1.0})))
    assert isnan(in_flight(replica.snapshot(0, IDLE | {"waiting": float("nan")})))


def test_it_takes_two_idle_readings_in_a_row_made_since() -> None:
    replica = Replica(clock=0)
    drain = Drain(10.0)
    assert not drain.feed(replica.snapshot(9, IDLE))  # from before: a request may have come since
    assert not drain.feed(replica.snapshot(11, IDLE))
    assert not drain.feed(replica.snapshot(11, IDLE))  # the same reading again
    assert not drain.feed(replica.snapshot(13, BUSY))
    assert drain.in_flight == 3
    assert not drain.feed(replica.snapshot(15, IDLE))
    assert not drain.feed(replica.down(17))
    assert not drain.feed(replica.snapshot(19, IDLE))
    assert drain.feed(replica.snapshot(21, IDLE))
