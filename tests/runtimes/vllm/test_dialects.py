"""One state, however it is said: the same numbers."""

from __future__ import annotations

import pytest

from sidecar.snapshot import Block
from tests.runtimes.vllm.captured import captured, count_and_sum, covered, numbers, page, read, version_of
from tests.runtimes.vllm.dialect import open_metrics, shuffled, through, turned_labels

STATES = ["01_idle_first", "06_s3_asc2_after", "08_s4_lora_after", "11_s5_after_enginekill", "ts_load_015"]
RELEASES = ["v0.6.6", "v0.8.0", "v0.9.2", "v0.11.0", "v0.16.0", "v0.24.0"]


@pytest.mark.parametrize("name", STATES + RELEASES)
def test_open_metrics_says_the_same(name: str) -> None:
    """Text 0.0.4 of the Python front end, and the same in the dialect of the Rust one."""
    other = open_metrics(page(name))
    assert b"_total counter" not in other
    snapshot = read(other, version_of(name))
    assert numbers(snapshot.data) == numbers(captured(name).data)
    assert covered(snapshot) == covered(captured(name))


@pytest.mark.parametrize("name", STATES + RELEASES)
def test_order_says_nothing(name: str) -> None:
    before = numbers(captured(name).data)
    for seed in range(3):
        after = numbers(read(shuffled(page(name), seed), version_of(name)).data)
        assert after.keys() == before.keys()
        assert all(after[key] == pytest.approx(values) for key, values in before.items())


@pytest.mark.parametrize("name", ["ts_load_015", "11_s5_after_enginekill"])
def test_order_of_labels_says_nothing(name: str) -> None:
    assert numbers(read(turned_labels(page(name))).data) == numbers(captured(name).data)


def test_carriage_returns_and_a_byte_order_mark_say_nothing() -> None:
    body = b"\xef\xbb\xbf" + page("ts_load_015").replace(b"\n", b"\r\n")
    assert numbers(read(body).data) == numbers(captured("ts_load_015").data)


def test_the_rust_front_end_says_what_the_python_one_says() -> None:
    """Both pages show one state. Rust has fewer families, and shows a series from its first event on."""
    rust, python = numbers(captured("rust_frontend").data), numbers(captured("ts_load_015").data)
    for key, values in rust.items():
        assert values == python[key], key
    only_python = {
        (signal, values) for (signal, labels), values in python.items() if (signal, labels) not in rust
    }
    assert {signal for signal, values in only_python if any(values)} == {"kv_cache_capacity_tokens"}


def test_a_minimal_rust_page() -> None:
    data = captured("rust_minimal").data
    assert data.get("requests_running") == 3
    assert data.get("prompt_tokens_total") == 1200
    assert data.get("requests_total", outcome="success") == 7
    assert count_and_sum(data, "batch_size") == (2, 30)


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"vllm:", b"ray_vllm:"), (b"vllm:", b"ray_vllm_"), (b"vllm:", b"vllm_"), (b"vllm:", b"kserve_vllm:")],
)
def test_names_through_other_doors(before: bytes, after: bytes) -> None:
    snapshot = read(through(page("ts_load_015"), before, after))
    assert numbers(snapshot.data) == numbers(captured("ts_load_015").data)


#: What every release says that is named in the issue of this mapping, and when the rest came.
ALWAYS = {
    "requests_running",
    "requests_waiting",
    "requests_total:success",
    "requests_finished_total",
    "preemptions_total",
    "prompt_tokens_total",
    "generation_tokens_total",
    "kv_cache_usage_ratio",
    "kv_cache_usage_max_ratio",
    "kv_cache_capacity_tokens",
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "e2e_request_latency_seconds",
    "request_queue_time_seconds",
    "request_prefill_time_seconds",
    "request_decode_time_seconds",
    "request_inference_time_seconds",
    "request_prompt_tokens",
    "request_generation_tokens",
    "batch_size",
}
SINCE = {
    "prefix_cache_queries_total": "v0.8.0",
    "prefix_cache_hits_total": "v0.8.0",
    "requests_total:cancelled": "v0.9.0.1",
    "cached_prompt_tokens_total": "v0.9.2",
    "time_per_output_token_seconds": "v0.11.0",
    "requests_total:error": "v0.16.0",
    "requests_total:rejected": "ts_load_015",  # 0.32
}
ORDER = [
    "v0.6.6",
    "v0.7.3",
    "v0.8.0",
    "v0.9.0.1",
    "v0.9.2",
    "v0.11.0",
    "v0.11.2",
    "v0.16.0",
    "v0.24.0",
    "ts_load_015",
]
#: Families that the Rust front end doesn't have, or not before their first event.
NOT_IN_RUST = {
    "kv_cache_capacity_tokens",
    "preemptions_total",
    "prefix_cache_hits_total",
    "cached_prompt_tokens_total",
    "requests_total:error",
    "requests_total:rejected",
}


@pytest.mark.parametrize("name", ORDER)
def test_every_release_gives_the_same_signals(name: str) -> None:
    """All of them, but for what the release doesn't have."""
    come = {signal for signal, since in SINCE.items() if ORDER.index(since) <= ORDER.index(name)}
    assert set(covered(captured(name))) == ALWAYS | come


def test_the_rust_page_gives_the_same_signals() -> None:
    assert set(covered(captured("rust_frontend"))) == (ALWAYS | set(SINCE)) - NOT_IN_RUST


@pytest.mark.parametrize("name", [*ORDER, *STATES, "rust_frontend", "03_s2_after_preempt", "v0.3.3"])
def test_what_is_said_to_be_there_is_there(name: str) -> None:
    """A signal with status ok has a number, a number has a signal with status ok."""
    snapshot = captured(name)
    present = {signal for signal, _ in numbers(snapshot.data)}
    assert present == {signal.partition(":")[0] for signal in covered(snapshot)}


KV = b'vllm:kv_cache_usage_perc{engine="%d",model_name="tiny"} 0.00036623329060614385'


def two_engines(first: float, second: float, body: bytes | None = None) -> Block:
    """The page of two engines with other KV usages."""
    text = page("11_s5_after_enginekill") if body is None else body
    for engine, usage in enumerate((first, second)):
        assert KV % engine in text
        text = text.replace(KV % engine, (KV % engine).rpartition(b" ")[0] + b" %r" % usage)
    return read(text).data


def test_engines_add_up_or_are_averaged_or_the_fullest_counts() -> None:
    data = two_engines(0.25, 0.75)
    assert data.get("kv_cache_usage_ratio") == pytest.approx(0.5)
    assert data.get("kv_cache_usage_max_ratio") == 0.75
    assert data.get("requests_running") == 4
    assert data.get("kv_cache_capacity_tokens") == 4194304


def test_the_mean_over_engines_is_weighted_by_their_capacity() -> None:
    body = page("11_s5_after_enginekill")
    line = next(
        line
        for line in body.split(b"\n")
        if line.startswith(b"vllm:cache_config_info") and b'engine="1"' in line
    )
    smaller = line.replace(b'num_gpu_blocks="32768"', b'num_gpu_blocks="8192"')
    assert smaller != line
    data = two_engines(0.25, 0.75, body.replace(line, smaller))
    assert data.get("kv_cache_usage_ratio") == pytest.approx((0.25 * 32768 + 0.75 * 8192) / (32768 + 8192))


def test_histograms_of_engines_add_up_bucket_by_bucket() -> None:
    """First tokens within a second: 19 of engine 0 and 15 of engine 1."""
    data = captured("11_s5_after_enginekill").data
    (ttft,) = data.layout.find("time_to_first_token_seconds")
    assert data.values[ttft.start + ttft.bounds.index(1.0)] == 19 + 15


def test_ranks_can_be_kept_apart() -> None:
    data = captured("11_s5_after_enginekill", per_rank=True).data
    assert data.get("requests_waiting", rank="0") == 3
    assert data.get("requests_waiting", rank="1") == 1
    assert count_and_sum(data, "time_to_first_token_seconds", rank="0") == (29, 28.100168466567993)
