"""What implausible numbers of `pages/` become once they are bound: an honest number or an absent one."""

from __future__ import annotations

from math import inf, nan

import pytest

from sidecar.runtimes.adapter import Adapter, Answer
from sidecar.runtimes.mapping import parse_mapping
from sidecar.schema import Kind
from tests.exposition.hazards import page

MAPPING = parse_mapping(
    {
        "runtime": "custom",
        "rank_labels": ["e", "v", "a"],
        "signals": {
            "requests_running": [{"metric": "g", "type": "gauge"}],
            "requests_waiting": [{"metric": "q", "type": "gauge"}],
            "prompt_tokens_total": [{"metric": "c_total", "type": "counter"}],
            "generation_tokens_total": [{"metric": "tgi_request_count", "type": "counter"}],
            "cached_prompt_tokens_total": [{"metric": "vllm:prompt_tokens_total", "type": "counter"}],
            "e2e_request_latency_seconds": [{"metric": "h", "type": "histogram"}],
            "request_queue_time_seconds": [{"metric": "s", "type": "summary"}],
            "batch_size": [{"metric": "lmdeploy:iteration_tokens_total", "type": "histogram"}],
        },
    },
    "hazards",
)
Number = float | tuple[list[float], list[float], float]


def bound(body: bytes) -> tuple[dict[str, Number], dict[str, str]]:
    """Signals with their numbers (a histogram: bounds, counts, sum), and why others are absent."""
    adapter = Adapter(MAPPING)
    reading = adapter.read({"metrics": Answer(200, body)})
    binding, _ = adapter.bind(reading.shape, {"target": "t"})
    values = binding.evaluate(reading.values)
    numbers: dict[str, Number] = {}
    for one in binding.layout.series:
        if one.signal.kind is Kind.HISTOGRAM:
            counts = list(values[one.start : one.sum_index])
            numbers[one.signal.name] = (list(one.bounds), counts, values[one.sum_index])
        else:
            numbers[one.signal.name] = values[one.start]
    absent = {one.signal: one.status.value for one in binding.provenance if one.status.value != "ok"}
    return numbers, absent


@pytest.mark.parametrize(
    ("name", "stated"),
    [
        ("01-counter-no-total", {"generation_tokens_total": 5}),
        ("04-om-counter-created", {"cached_prompt_tokens_total": 5}),
        ("06-text-body-as-om", {"cached_prompt_tokens_total": 5}),
        ("08-dup-help-type", {"requests_waiting": 3}),
        ("09-type-changes", {}),
        (
            "11-interleaved-hist",
            {"requests_running": 1, "e2e_request_latency_seconds": ([1, inf], [1, 2], 3)},
        ),
        ("17-specials", {"requests_running": nan}),  # a rank that says NaN leaves the sum unknown
        ("22-big-int", {"prompt_tokens_total": 9007199254740992}),
        ("34-dup-same", {"requests_running": 1}),
        ("35-dup-label-order", {"requests_running": 1}),
        ("37-empty-label", {"requests_running": 1}),
        ("38-negative-counter", {"prompt_tokens_total": nan}),
        ("39-nan-counter", {"prompt_tokens_total": nan}),
        ("40-bucket-noncumulative", {"e2e_request_latency_seconds": ([1, 2, inf], [nan] * 3, nan)}),
        ("41-bucket-no-inf", {"e2e_request_latency_seconds": ([1, 2, inf], [5, 7, 8], 9)}),
        ("42-bucket-count-mismatch", {"e2e_request_latency_seconds": ([1, inf], [5, 9], 9)}),
        ("43-bucket-unsorted", {"e2e_request_latency_seconds": ([2, 10, inf], [5, 8, 9], 9)}),
        ("44-bucket-no-count-sum", {"e2e_request_latency_seconds": ([1, inf], [5, 9], nan)}),
        ("45-sum-first", {"e2e_request_latency_seconds": ([1, inf], [5, 9], 9)}),
        ("46-le-spelling", {"e2e_request_latency_seconds": ([1, inf], [5, 9], 9)}),
        ("48-summary-nan", {"request_queue_time_seconds": ([inf], [0], 0)}),
        ("50-hist-named-total", {"batch_size": ([1, inf], [1, 2], 9)}),
        ("63-bad-utf8", {}),
        ("69-unknown-type", {}),
        ("71-target-label-clash", {"requests_running": 1}),
    ],
)
def test_numbers(name: str, stated: dict[str, Number]) -> None:
    numbers, _ = bound(page(name))
    assert repr({key: _floats(value) for key, value in numbers.items()}) == repr(
        {key: _floats(value) for key, value in stated.items()}
    )


def _floats(value: Number) -> object:
    if isinstance(value, tuple):
        return [[float(one) for one in value[0]], [float(one) for one in value[1]], float(value[2])]
    return float(value)


def test_another_type_than_declared_is_a_status() -> None:
    _, absent = bound(page("69-unknown-type"))
    assert absent["requests_running"] == "type_mismatch"  # g is a stateset


@pytest.mark.parametrize(
    ("buckets", "total"),
    [((nan, 2, 3), 1), ((1, nan, 3), 1), ((1, 2, nan), 1), ((-5, 2, 3), 1), ((1, 2, inf), 1)],
)
def test_a_histogram_with_an_impossible_count_is_absent(buckets: tuple[float, ...], total: float) -> None:
    body = "# TYPE h histogram\n" + "".join(
        f'h_bucket{{le="{bound}"}} {count}\n'
        for bound, count in zip(("1", "2", "+Inf"), buckets, strict=True)
    )
    numbers, _ = bound(f"{body}h_sum {total}\nh_count 3\n".encode())
    assert repr(numbers["e2e_request_latency_seconds"]) == repr(([1.0, 2.0, inf], [nan] * 3, nan))


@pytest.mark.parametrize("total", ["NaN", "+Inf", "-Inf"])
def test_an_impossible_sum_costs_the_sum(total: str) -> None:
    numbers, _ = bound(f'# TYPE h histogram\nh_bucket{{le="+Inf"}} 3\nh_sum {total}\n'.encode())
    assert repr(numbers["e2e_request_latency_seconds"]) == repr(([inf], [3.0], nan))


@pytest.mark.parametrize("value", ["-1", "NaN", "+Inf", "-Inf"])
def test_a_sentinel_gauge_is_absent(value: str) -> None:
    numbers, _ = bound(f"# TYPE q gauge\nq {value}\n".encode())
    assert repr(numbers) == repr({"requests_waiting": nan})


@pytest.mark.parametrize("le", ["1_0", "x", "NaN", "١"])
def test_a_bound_that_is_no_number_is_left_out(le: str) -> None:
    body = f'# TYPE h histogram\nh_bucket{{le="{le}"}} 2\nh_bucket{{le="+Inf"}} 3\nh_sum 1\nh_count 3\n'
    numbers, _ = bound(body.encode())
    assert numbers == {"e2e_request_latency_seconds": ([inf], [3.0], 1.0)}
