"""A sidecar that restarts: windows go on, nothing counts twice; files that are no good are moved aside."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from math import isnan
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.slo import Objective, SloEngine, StateStore
from sidecar.slo.store import APPLICATION_ID
from sidecar.slo.windows import DAY
from tests.slo.worlds import Runtime

TTFT = Objective("ttft", "time_to_first_token", 0.95, 7 * DAY, threshold=1.0)
HOUR = 3600


def hour_of_traffic(runtime: Runtime, engine: SloEngine, start: int = 0) -> None:
    for time in range(start, start + HOUR, 2):
        runtime.observe(0.2, 9)
        runtime.observe(3.0, 1)
        engine.feed(runtime.snapshot(time))


def test_windows_go_on_after_a_restart(tmp_path: Path) -> None:
    store, runtime = StateStore(tmp_path / "state.sqlite"), Runtime()
    first = SloEngine([TTFT])
    hour_of_traffic(runtime, first)
    assert store.save(first.saved())
    runtime.observe(0.2, 30)  # while no sidecar runs
    second = SloEngine([TTFT], StateStore(tmp_path / "state.sqlite").load())
    block = second.feed(runtime.snapshot(HOUR + 8, clock=-123456.0))  # another machine's monotonic clock
    assert block.get("slo_events_total") == 30  # starts at 0 in each process, and adds what it missed
    assert block.get("slo_bad_events_total", bound="lenient") == 0
    assert block.get("slo_burn_rate", window="1h") == pytest.approx(2, rel=0.01)
    assert block.get("slo_window_coverage_ratio", window="1h") > 0.99
    remaining = block.get("slo_error_budget_remaining_ratio")
    events, bad = 1799 * 10 + 30, 1799
    assert remaining == pytest.approx(1 - bad / events / 0.05)


def test_an_engine_that_goes_on_and_one_that_was_restarted_agree() -> None:
    runtime, steady = Runtime(), SloEngine([TTFT])
    hour_of_traffic(runtime, steady)
    restarted = SloEngine([TTFT], steady.saved())
    for time in range(HOUR, 2 * HOUR, 2):
        runtime.observe(0.2, 4)
        runtime.observe(3.0, 1)
        snapshot = runtime.snapshot(time)
        one, other = steady.feed(snapshot), restarted.feed(snapshot)
    for window in ("5m", "30m", "1h"):
        assert other.get("slo_burn_rate", window=window) == one.get("slo_burn_rate", window=window)
    assert other.get("slo_error_budget_remaining_ratio") == one.get("slo_error_budget_remaining_ratio")


@pytest.mark.parametrize("started", [None, 5000.0])
def test_a_runtime_that_restarted_meanwhile_counts_from_zero(started: float | None) -> None:
    runtime, first = Runtime(started=100.0 if started else None), SloEngine([TTFT])
    hour_of_traffic(runtime, first)
    second = SloEngine([TTFT], first.saved())
    runtime.restart(started=started)
    runtime.observe(0.2, 3)
    block = second.feed(replace(runtime.snapshot(HOUR + 60), epoch=0))
    assert block.get("slo_events_total") == 3


def test_a_start_time_tells_a_restart_that_counters_hide() -> None:
    runtime, first = Runtime(started=100.0), SloEngine([TTFT])
    first.feed(runtime.snapshot(0))
    runtime.observe(0.2, 10)
    first.feed(runtime.snapshot(2))
    second = SloEngine([TTFT], first.saved())
    runtime.restart(started=500.0)
    runtime.observe(0.2, 25)
    assert second.feed(replace(runtime.snapshot(60), epoch=0)).get("slo_events_total") == 25


def test_without_state_a_restart_loses_one_poll_at_most() -> None:
    runtime, first = Runtime(), SloEngine([TTFT])
    hour_of_traffic(runtime, first)
    second = SloEngine([TTFT])
    runtime.observe(0.2, 5)
    assert second.feed(runtime.snapshot(HOUR)).get("slo_events_total") == 0
    runtime.observe(0.2, 5)
    assert second.feed(runtime.snapshot(HOUR + 2)).get("slo_events_total") == 5


def test_a_wall_clock_that_was_set_back_does_no_harm() -> None:
    runtime, first = Runtime(), SloEngine([TTFT])
    hour_of_traffic(runtime, first, start=10**9)
    second = SloEngine([TTFT], first.saved())
    for time in range(10**9 - 2 * HOUR, 10**9 - HOUR, 2):
        runtime.observe(0.2, 10)
        block = second.feed(runtime.snapshot(time, clock=10**9 - 10**6))
    assert block.get("slo_events_total") == 18000
    assert block.get("slo_burn_rate", window="5m") == 0
    assert 0.9 < block.get("slo_burn_rate", window="2h") < 1.1


def test_an_objective_that_changed_starts_anew_and_the_others_go_on() -> None:
    runtime, other = Runtime(), replace(TTFT, name="other")
    first = SloEngine([TTFT, other])
    hour_of_traffic(runtime, first)
    second = SloEngine([replace(TTFT, threshold=0.5), other], first.saved())
    block = second.feed(runtime.snapshot(HOUR))
    assert block.get("slo_burn_rate", slo="other", window="1h") == pytest.approx(2, rel=0.01)
    assert isnan(block.get("slo_burn_rate", slo="ttft", window="5m"))
    assert block.get("slo_window_coverage_ratio", slo="ttft", window="5m") == 0


def test_state_before_the_target_answers_is_already_published() -> None:
    runtime, first = Runtime(), SloEngine([TTFT])
    hour_of_traffic(runtime, first)
    block = SloEngine([TTFT], first.saved()).feed(runtime.down(HOUR + 2))
    assert block.get("slo_events_total") == 0
    assert block.get("slo_burn_rate", window="1h") == pytest.approx(2, rel=0.01)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 3000), st.binary(max_size=40), st.booleans())
def test_damaged_state_is_told_and_not_used(at: int, noise: bytes, cut: bool) -> None:
    runtime, first = Runtime(), SloEngine([TTFT])
    first.feed(runtime.snapshot(0))
    body = first.saved()["slo/local"]
    at = min(at, len(body))
    damaged = body[:at] if cut else body[:at] + noise + body[at + len(noise) :]
    second = SloEngine([TTFT], {"slo/local": damaged})
    assert len(second.problems) <= 1
    second.feed(runtime.snapshot(2))
    runtime.observe(0.2, 3)
    assert second.feed(runtime.snapshot(4)).get("slo_events_total") >= 0


def test_store_keeps_what_it_was_given(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "deep" / "state.sqlite")
    assert store.load() == {}
    assert store.save({"slo/a": b"\x00\xff", "seed": b""})
    assert StateStore(store.path).load() == {"slo/a": b"\x00\xff", "seed": b""}
    assert store.save({"slo/b": b"1"})
    assert StateStore(store.path).load() == {"slo/b": b"1"}


def test_a_file_that_is_no_database_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    path.write_bytes(b"not a database at all " * 100)
    store = StateStore(path)
    assert store.load() == {}
    assert "set-aside" in store.problem
    (aside,) = tmp_path.glob("state.sqlite.set-aside-*")
    assert aside.read_bytes().startswith(b"not a database")
    assert store.save({"k": b"v"})
    assert store.problem == ""


def test_another_programs_database_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE precious (value TEXT)")
        database.execute("INSERT INTO precious VALUES ('gold')")
    database.close()
    assert not StateStore(path).save({"k": b"v"})
    (aside,) = tmp_path.glob("state.sqlite.set-aside-*")
    with sqlite3.connect(aside) as database:
        assert database.execute("SELECT value FROM precious").fetchall() == [("gold",)]
    database.close()


def test_a_newer_format_is_set_aside(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state.sqlite")
    store.save({"k": b"v"})
    with sqlite3.connect(store.path) as database:
        assert database.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        database.execute("PRAGMA user_version = 99")
    database.close()
    assert store.load() == {}
    assert "format 99" in store.problem


def test_damaged_pages_are_set_aside(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state.sqlite")
    store.save({f"k{number}": bytes(3000) for number in range(20)})
    raw = bytearray(store.path.read_bytes())
    raw[4096:-4096] = b"\xa5" * (len(raw) - 8192)
    store.path.write_bytes(raw)
    assert store.load() == {}
    assert "set-aside" in store.problem


def test_a_full_disk_keeps_the_last_good_state(tmp_path: Path) -> None:
    """SQLite's own bound on pages gives the very error that a full disk gives."""
    store = StateStore(tmp_path / "state.sqlite", largest=64 * 1024)
    assert store.save({"k": b"good"})
    assert not store.save({"k": bytes(10**6)})
    assert "full" in store.problem
    assert store.load() == {"k": b"good"}
    assert store.save({"k": b"small again"})


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = StateStore(tmp_path / "file" / "state.sqlite")
    assert store.load() == {}
    assert not store.save({"k": b"v"})
    assert "memory only" in store.problem


def test_a_place_that_cannot_even_be_looked_at_is_told(tmp_path: Path) -> None:
    """As where a folder on the way may not be entered; root may enter all, so here by a name that is too long."""
    store = StateStore(tmp_path / ("n" * 300))
    assert store.load() == {}
    assert "can't be read" in store.problem
    assert not store.save({"key": b"body"})
    assert "can't be written" in store.problem
