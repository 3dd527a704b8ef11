"""One signal as one number: right, or refused with a reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from sidecar.outputs.signal_value import signal_value
from sidecar.schema import Method, Status
from sidecar.snapshot import EMPTY_BLOCK, Block, LayoutBuilder, Provenance, Publication, Snapshot, block_of

NOW = 1_000.0

Rows = Sequence[tuple[str, dict[str, str], float]]


def snapshot(target: str, rows: Rows = (), *, up: bool = True, age: float = 1.0, **more: Any) -> Snapshot:
    data = block_of([(name, {"target": target, **labels}, value) for name, labels, value in rows])
    life = block_of(
        [
            ("target_up", {"target": target}, float(up)),
            ("target_last_success_timestamp_seconds", {"target": target}, NOW - age),
        ]
    )
    return Snapshot(target, "vllm", NOW - age, 5.0, 0, up, data, life, **more)


def ask(
    snapshots: Sequence[Snapshot], name: str, shared: tuple[Block, ...] = (), **query: str
) -> tuple[int, Any]:
    publication = Publication(NOW, tuple(snapshots), shared, 1)
    answer = signal_value(publication, name, query, NOW, stale_after=60.0)
    return answer.status, answer.body


def waiting(model: str, value: float) -> tuple[str, dict[str, str], float]:
    return "requests_waiting", {"model_name": model}, value


TWO = [snapshot("a", [waiting("m", 3), waiting("n", 4.5)]), snapshot("b", [waiting("m", 10)], age=4.0)]


def test_counts_add_up_over_targets_and_models() -> None:
    assert ask(TWO, "requests_waiting") == (
        200,
        {
            "name": "requests_waiting",
            "value": 17.5,
            "unit": "requests",
            "aggregate": "sum",
            "series": 3,
            "targets": ["a", "b"],
            "age_seconds": 4.0,
        },
    )


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ({"target": "a"}, 7.5),
        ({"model_name": "m"}, 13),
        ({"target": "a", "model_name": "m"}, 3),
        ({"aggregate": "max"}, 10),
        ({"aggregate": "min"}, 3),
        ({"aggregate": "mean", "target": "a"}, 3.75),
    ],
)
def test_filters_and_aggregates(query: dict[str, str], value: float) -> None:
    status, body = ask(TWO, "requests_waiting", **query)
    assert (status, body["value"]) == (200, value)


def test_the_name_may_have_its_prefix() -> None:
    assert ask(TWO, "inference_requests_waiting") == ask(TWO, "requests_waiting")


@pytest.mark.parametrize(
    ("name", "values", "joined"),
    [
        ("kv_cache_usage_max_ratio", (0.5, 0.9), 0.9),
        ("kv_cache_usage_ratio", (0.5, 0.9), 0.7),
        ("kv_cache_usage_peak_ratio", (0.5, 0.9), 0.9),
        ("requests_waiting_peak", (5, 9), 14),
    ],
)
def test_ratios_are_never_added_up(name: str, values: tuple[float, float], joined: float) -> None:
    snapshots = [snapshot(target, [(name, {}, value)]) for target, value in zip("ab", values, strict=True)]
    status, body = ask(snapshots, name)
    assert status == 200
    assert body["value"] == pytest.approx(joined)


def test_the_same_series_in_two_blocks_counts_once() -> None:
    twice = replace(TWO[0], extra=(TWO[0].data,))
    assert ask([twice], "requests_waiting")[1]["value"] == 7.5


def test_idle_is_zero_and_an_integer() -> None:
    value = ask([snapshot("a", [waiting("m", 0.0)])], "requests_waiting")[1]["value"]
    assert (value, type(value)) == (0, int)


def test_a_target_that_is_down_makes_the_sum_blind_not_smaller() -> None:
    down = replace(snapshot("b", up=False), data=EMPTY_BLOCK)
    status, body = ask([TWO[0], down], "requests_waiting")
    assert (status, body["reason"], body["targets"]) == (503, "blind", ["b"])
    assert "value" not in body
    assert ask([TWO[0], down], "requests_waiting", target="a")[1]["value"] == 7.5


def test_what_lives_on_while_a_target_is_down_is_told() -> None:
    down = replace(snapshot("a", up=False), data=EMPTY_BLOCK)
    assert ask([down], "target_up")[1]["value"] == 0


def test_an_old_snapshot_is_stale_whatever_it_says() -> None:
    status, body = ask([TWO[0], snapshot("b", [waiting("m", 1)], age=61.0)], "requests_waiting")
    assert (status, body["reason"], body["targets"]) == (503, "stale", ["b"])


def test_a_value_that_should_be_there_and_is_not_is_absent() -> None:
    status, body = ask([TWO[0], snapshot("b", [waiting("m", nan)])], "requests_waiting")
    assert (status, body["reason"], body["targets"]) == (503, "absent", ["b"])


def test_one_outcome_that_a_runtime_cannot_show_does_not_hide_the_others() -> None:
    rows = [
        ("requests_total", {"outcome": outcome}, value) for outcome, value in [("success", 8), ("error", nan)]
    ]
    assert ask([snapshot("a", rows)], "requests_total")[1]["value"] == 8


@pytest.mark.parametrize("rows", [[], [waiting("m", nan)]])
def test_a_target_that_cannot_have_the_signal_is_passed_over(rows: Rows) -> None:
    provenance = (Provenance("requests_waiting", Status.NOT_EXPOSED, Method.NATIVE),)
    other = snapshot("t", [*rows, ("requests_running", {}, 1)], provenance=provenance)
    assert ask([TWO[0], other], "requests_waiting")[1]["targets"] == ["a"]
    status, body = ask([other], "requests_waiting")
    assert (status, body["reason"]) == (503, "absent")


def test_a_filter_that_nothing_matches_is_absent_and_says_which() -> None:
    status, body = ask(TWO, "requests_waiting", model_name="typo")
    assert (status, body["reason"], body["detail"]) == (503, "absent", "no series with model_name=typo")


def test_nobody_there_is_absent() -> None:
    assert ask([], "requests_waiting")[0] == 503


def test_infinity_is_no_number_for_a_scaler() -> None:
    assert ask([snapshot("a", [waiting("m", inf)])], "requests_waiting")[0] == 503


def test_a_gpu_signal_does_not_care_whether_a_runtime_is_down() -> None:
    gpus = block_of([("gpu_power_watts", {"gpu_uuid": str(gpu)}, 100.5) for gpu in range(2)])
    down = replace(snapshot("a", up=False), data=EMPTY_BLOCK)
    status, body = ask([down], "gpu_power_watts", (gpus,))
    assert (status, body["value"], body["targets"]) == (200, 201, ["shared"])
    assert ask([down], "gpu_power_watts", (gpus,), gpu_uuid="1")[1]["value"] == 100.5


def test_an_unknown_signal_names_the_nearest() -> None:
    status, body = ask(TWO, "requests_wating")
    assert (status, body["nearest"]) == (404, "requests_waiting")
    assert ask(TWO, "x" * 5000)[0] == 404


def test_a_histogram_is_no_single_number() -> None:
    builder = LayoutBuilder()
    builder.add("time_to_first_token_seconds", {"target": "a"}, (1,))
    data = Block(builder.build(), (1, 2, 0.5))
    assert ask([replace(TWO[0], data=data)], "time_to_first_token_seconds")[0] == 400
    assert ask(TWO, "requests_waiting", aggregate="median")[0] == 400
