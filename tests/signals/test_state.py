"""What outlives the process, and what can't be used."""

from __future__ import annotations

import json
from math import isnan

import pytest

from sidecar.signals import Settings, Signals
from sidecar.signals.state import STATE_KEY
from tests.signals.worlds import EMPTY_GAPS, EMPTY_POLL, Replica

FULL = EMPTY_POLL | EMPTY_GAPS | {"slots": 64.0}


def worked(replica: Replica) -> Signals:
    """A replica that was seen at several levels, with a queue at the end."""
    signals = Signals()
    poll = dict(FULL)
    for place in range(90):
        level = (1.0, 4.0, 16.0, 40.0, 64.0, 64.0)[place // 15]
        gaps = 100.0 * level
        poll = poll | {"running": level, "waiting": 9.0 if place >= 60 else 0.0}
        poll |= {name: poll[name] + 2 for name in ("finished", "inf_cnt")}
        poll |= {"inf_sum": poll["inf_sum"] + 12, "itl_cnt": poll["itl_cnt"] + gaps}
        poll |= {"itl_sum": poll["itl_sum"] + gaps * (0.01 + 0.0002 * level), "itl_good": poll["itl_cnt"]}
        signals.feed(replica.snapshot(2.0 * place, poll))
    return signals


def test_service_time_idle_gap_and_observed_limit_go_on_in_another_process() -> None:
    replica = Replica()
    before = worked(replica)
    saved = before.saved()
    assert list(saved) == [STATE_KEY + "local"]
    after = Signals(saved=saved)
    replica.clock = 1e9 + 200 - 5000  # the host's monotonic clock began anew
    block = after.feed(replica.snapshot(5000, FULL))
    assert block is not None
    assert block.get("service_time_seconds") == pytest.approx(6)
    assert block.get("idle_inter_token_latency_seconds") == pytest.approx(0.01, rel=0.1)
    assert block.get("capacity_requests", limit="observed") == 64
    seed = [one for one in block.layout.by_signal["signal_info"] if one.label("source") == "seed"]
    assert [block.values[one.start] for one in seed] == [1]  # the service time isn't this process's own
    later = after.feed(replica.snapshot(5000 + 700, FULL))
    assert later is not None
    assert later.get("capacity_requests", limit="observed") == 64  # a plateau: what it has slots for
    assert not after.problems


def test_limits_of_a_process_that_began_after_the_state_was_saved_are_its_own() -> None:
    replica = Replica()
    saved = worked(replica).saved()
    after = Signals(saved=saved)
    replica.started = replica.clock + 195.0
    block = after.feed(replica.snapshot(200, FULL))
    assert block is not None
    assert isnan(block.get("capacity_requests", limit="observed"))
    assert block.get("service_time_seconds") == pytest.approx(6), "times are still the best guess"


def test_nothing_is_saved_before_anything_was_seen() -> None:
    assert Signals().saved() == {}


@pytest.mark.parametrize(
    "body",
    [
        b"\xff",
        b"[]",
        b"{}",
        b'{"format": 9}',
        b'{"format":1,"time":0,"models":{"m":{"service_time":"x"}}}',
        b'{"format":1,"time":0,"models":{"m":7}}',
        b'{"format":1,"time":0,"models":3}',
    ],
)
def test_state_that_cannot_be_used_is_told_and_left(body: bytes) -> None:
    signals = Signals(saved={STATE_KEY + "local": body})
    block = signals.feed(Replica().snapshot(0, FULL))
    assert block is not None and block.get("replica_demand") == 0
    assert len(signals.problems) == 1 and "local" in signals.problems[0]


def test_the_state_of_others_is_not_touched() -> None:
    signals = Signals(Settings(service_time=3), saved={"slo/local": b"\x00", STATE_KEY + "other": b"?"})
    block = signals.feed(Replica().snapshot(0, FULL))
    assert block is not None and block.get("service_time_seconds") == 3
    assert not signals.problems


def test_the_state_is_small_json() -> None:
    (body,) = worked(Replica()).saved().values()
    assert set(json.loads(body)) == {"format", "time", "models"}
    assert len(body) < 4096


def test_a_seed_of_a_probe_or_of_the_fleet_counts_until_the_replica_has_shown_its_own() -> None:
    signals, replica = Signals(), Replica()
    first = signals.feed(replica.snapshot(0, FULL | {"running": 4.0}))
    assert first is not None and isnan(first.get("service_time_seconds"))
    signals.seed(service_time=8.0, idle_gap=0.02)
    block = signals.feed(replica.snapshot(2, FULL | {"running": 4.0}))
    assert block is not None
    assert block.get("service_time_seconds") == 8
    assert block.get("idle_inter_token_latency_seconds") == 0.02
    served = FULL | {"running": 4.0, "finished": 20.0, "inf_cnt": 20.0, "inf_sum": 60.0}
    block = signals.feed(replica.snapshot(4, served))
    assert block is not None and block.get("service_time_seconds") == 3
    signals.seed(idle_gap=0.03)
    block = signals.feed(replica.snapshot(6, served))
    assert block is not None and block.get("service_time_seconds") == 3
    assert block.get("idle_inter_token_latency_seconds") == 0.03
