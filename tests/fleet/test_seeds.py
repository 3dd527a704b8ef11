"""Seeds for newcomers: what is taken from the fleet's answer, and what isn't."""

from __future__ import annotations

import json

import pytest

from sidecar.fleet.seeds import Seeds, read_seeds
from sidecar.signals import Signals

ONE = {"m": {"service_time_seconds": 6.0, "idle_inter_token_latency_seconds": 0.01}}


def test_seeds_of_a_model_or_of_the_only_one() -> None:
    body = json.dumps(ONE).encode()
    assert read_seeds(body, "m") == read_seeds(body) == Seeds(6.0, 0.01)
    assert read_seeds(body, "other") == Seeds()
    assert read_seeds(json.dumps({**ONE, "n": {}}).encode()) == Seeds()
    assert read_seeds(b"{}") == Seeds()


def test_a_newcomer_starts_from_them() -> None:
    seeds = read_seeds(json.dumps(ONE).encode())
    signals = Signals()
    signals.seed(service_time=seeds.service_time, idle_gap=seeds.idle_gap)
    assert (signals.settings.service_time, signals.settings.idle_gap) == (6.0, 0.01)


def test_nonsense_is_no_seed() -> None:
    for value in (0, -1, True, "6", None, [6], 1e999):
        assert read_seeds(json.dumps({"m": {"service_time_seconds": value}}).encode()).service_time is None


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"m": 3}', b"\xff"])
def test_what_is_no_answer_of_a_fleet_is_an_error(body: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        read_seeds(body)
