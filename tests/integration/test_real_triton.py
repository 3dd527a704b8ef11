"""A real Triton, a real sidecar beside it, and a client that counts for itself: one server, one story.

The first run downloads 55 MB into a cache outside the repository; without a network the tests are skipped.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from yarl import URL

from sidecar.pipeline import Settings, TargetPipeline
from sidecar.probe import Asker, Outcome, Prober
from sidecar.probe import Settings as Probing
from sidecar.probe.request import question
from sidecar.runtimes.registry import Registry
from sidecar.targets.fetch import Fetcher
from sidecar.targets.target import Address, Target
from tests.integration.real_servers import wait_for
from tests.integration.real_triton import environment
from tests.integration.real_triton.beside import INTERVAL, Page, Sidecar, watching
from tests.integration.real_triton.server import Triton, serving
from tests.integration.real_triton.texts import PREFILL, Spoken, spoken


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Triton, Sidecar]]:
    try:
        environment.prepare()
    except environment.Unavailable as why:
        pytest.skip(f"no real Triton: {why}")
    folder = tmp_path_factory.mktemp("triton")
    with serving(folder) as triton, watching(folder, triton) as beside:
        yield triton, beside


def what_runs_is_found(triton: Triton, beside: Sidecar) -> None:
    beside.comes_to(1, "target_ready", runtime="triton")
    beside.comes_to(1, "runtime_info", version="2.51.0", engine="python")
    beside.comes_to(10, "model_info")
    beside.comes_to(2, "request_slots", model_name="slow")


def a_backlog_is_seen_while_it_stands_and_counted_when_it_is_gone(triton: Triton, beside: Sidecar) -> None:
    peaks: list[float] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            peaks.append(beside.get("requests_waiting", model_name="slow") or 0.0)
            time.sleep(INTERVAL / 2)

    looking = threading.Thread(target=look)
    looking.start()
    # 20 at once: two are taken, twelve queue, the others are refused; the queue's last ones wait too long.
    told = Counter(
        "timed out" if "timeout expired" in error else "refused" if "maximum queue size" in error else status
        for status, error in triton.together(20, "slow")
    )
    over.set()
    looking.join()
    assert told[200] + told["timed out"] + told["refused"] == 20 and told["timed out"]
    assert 4 <= max(peaks) <= 13
    beside.comes_to(told[200], "requests_total", model_name="slow", outcome="success")
    # What a full queue refuses is counted nowhere.
    beside.comes_to(told["timed out"], "requests_total", model_name="slow", outcome="rejected")
    beside.comes_to(told[200], "request_queue_time_seconds_count", model_name="slow")
    queued = beside.get("request_queue_time_seconds_sum", model_name="slow")
    whole = beside.get("e2e_request_latency_seconds_sum", model_name="slow")
    computed = beside.get("request_inference_time_seconds_sum", model_name="slow")
    assert queued and whole and computed
    assert queued + computed == pytest.approx(whole, rel=0.02)
    assert computed >= 0.4 * told[200]
    beside.comes_to(0, "requests_waiting", model_name="slow")


def an_ensemble_counts_once(triton: Triton, beside: Sidecar) -> None:
    told = Counter(triton.infer("ens", value) for value in (1, 1, 1, 1, -5))
    assert told == {200: 4, 500: 1}
    beside.comes_to(4, "requests_total", model_name="ens", outcome="success")
    beside.comes_to(1, "requests_total", model_name="ens", outcome="error")
    assert beside.get("requests_total", model_name="fast", outcome="success") is None
    beside.comes_to(5, "model_executions_total", model_name="fast")


def cache_hits_are_not_computed(triton: Triton, beside: Sidecar) -> None:
    assert [triton.infer("cached", value) for value in (1, 1, 1, 2, 2, 3)] == [200] * 6
    beside.comes_to(6, "requests_total", model_name="cached", outcome="success")
    beside.comes_to(3, "request_inference_time_seconds_count", model_name="cached")
    computed = beside.get("request_inference_time_seconds_sum", model_name="cached")
    assert computed is not None and computed / 3 >= 0.05


def versions_stay_apart(triton: Triton, beside: Sidecar) -> None:
    for version, count in ((1, 3), (2, 5)):
        assert [triton.infer("multi", version=version) for _ in range(count)] == [200] * count
        beside.comes_to(
            count, "requests_total", model_name="multi", model_version=str(version), outcome="success"
        )


def a_stream_has_no_latency_of_tritons(triton: Triton, beside: Sidecar) -> None:
    assert triton.stream("stream", 5) == 5
    beside.comes_to(1, "requests_total", model_name="stream", outcome="success")
    for signal_name in ("e2e_request_latency_seconds_count", "requests_waiting"):
        assert beside.get(signal_name, model_name="stream") is None
        assert beside.get(signal_name, model_name="slow") is not None


def a_model_that_is_loaded_again_goes_on_counting(triton: Triton, beside: Sidecar) -> None:
    before = beside.get("requests_total", model_name="multi", outcome="success")
    assert before
    assert triton.ask("/v2/repository/models/multi/unload", {})[0] == 200
    wait_for(lambda: beside.get("requests_total", model_name="multi", outcome="success") is None, 10.0)
    assert triton.ask("/v2/repository/models/multi/load", {})[0] == 200
    assert [triton.infer("multi", version=1) for _ in range(2)] == [200, 200]
    beside.comes_to(before + 2, "requests_total", model_name="multi", outcome="success")
    beside.comes_to(0, "target_restarts_total")


def failed_answers_are_a_lower_bound_and_exceptions_are_counted(triton: Triton, beside: Sidecar) -> None:
    assert [triton.infer("flaky", value) for value in (-1, -1, -999, -999)] == [500] * 4
    # `flaky` is a step of the ensemble: its own requests aren't shown beside it, its executions are.
    assert beside.get("requests_total", model_name="flaky") is None
    info = [own for own in beside.read().labels("signal_info") if own["signal"] == "requests_total:error"]
    assert {own["method"] for own in info} <= {"derived", "estimated"}


def probes_are_timed_and_counted_as_the_model_and_triton_do(triton: Triton, beside: Sidecar) -> None:
    """Two models are found, by their configs; the others don't take text, or answer it once."""

    def between_two_probes() -> tuple[Page, list[Spoken]] | None:
        page, told = beside.read(), spoken(triton.repository, model)
        probes = page.get("probe_requests_total", model_name=model)
        answered = page.get("requests_total", model_name=model, outcome="success")
        seen = page.get("probe_inter_token_latency_seconds_count", model_name=model)
        return (page, told) if seen and len(told) > 1 and probes == answered == len(told) else None

    for model, names in (
        ("chat", {"stream", "max_tokens", "top_k"}),
        ("llmapi", {"streaming", "sampling_param_max_tokens", "sampling_param_top_k"}),
    ):
        page, told = wait_for(between_two_probes, 15.0, name=f"probes of {model}")
        assert page.get("probe_success", model_name=model) == 1
        assert page.get("probe_requests_total", model_name=model, result="ok") == len(told)
        assert all(one.asked.keys() == names | {"text_input"} for one in told)
        assert len({one.asked["text_input"][:16] for one in told}) == len(told), (
            "no prompt begins like another"
        )
        assert {len(one.sent) for one in told} == {8}, "as many as were asked for, in a stream"
        assert page.get("probe_generation_tokens_total", model_name=model) == 8 * len(told)
        first = page.get("probe_time_to_first_token_seconds_sum", model_name=model)
        own = sum(one.sent[0] - one.began for one in told)
        assert first and own < first < 10 * own, "asked before the model began, seen after it spoke"
        gaps = page.get("probe_inter_token_latency_seconds_sum", model_name=model)
        count = page.get("probe_inter_token_latency_seconds_count", model_name=model)
        assert gaps and count and count % 7 == 0 and count <= 7 * len(told)
        own = sum(one.sent[-1] - one.sent[0] for one in told) / (7 * len(told))
        assert own / 3 < gaps / count < own * 3

    page = beside.read()
    assert {own["model_name"] for own in page.labels("probe_requests_total")} == {"chat", "llmapi"}
    for model, asked in (("classify", 0), ("stream", 1)):
        assert page.get("requests_total", model_name=model, outcome="success") == asked


async def one_probe(triton: Triton) -> tuple[str, Outcome] | None:
    """By a sidecar that has just come: what it has learnt by three looks."""
    address = Address(triton.metrics, triton.api)
    pipeline = TargetPipeline(Settings(name="new"), Registry())
    clock = asyncio.get_running_loop().time
    async with Fetcher() as fetcher:
        for _ in range(3):
            asked = Target(address, fetcher)
            for name, answer in (await asked.facts(pipeline.endpoints, {}, clock(), clock() + 5.0)).items():
                pipeline.learn(name, answer)
            pages = await asked.pages(pipeline.endpoints, {}, clock() + 5.0)
            snapshot = pipeline.feed(pages, time=time.time(), mono=clock())
    prober = Prober("new", Probing(), address, Asker(), lambda: pipeline.adapter, lambda gap: None)
    return await prober.once(snapshot, clock() + 10.0)


def an_ensemble_is_asked_in_its_models_stead(triton: Triton, beside: Sidecar) -> None:
    assert triton.ask("/v2/repository/models/ensemble/load", {})[0] == 200
    model, found = asyncio.run(one_probe(triton)) or ("", Outcome())
    assert (model, found.result, found.generated) == ("ensemble", "ok", 8)
    assert found.first > PREFILL


def what_triton_refuses_and_what_its_model_fails_at_are_told_apart(triton: Triton, beside: Sidecar) -> None:
    def ask(model: str, prompt: str = "Sea.", tokens: int = 8, within: float = 10.0) -> tuple[str, int]:
        async def story() -> Outcome:
            url = URL(f"{triton.api}/v2/models/{model}/generate_stream")
            deadline = asyncio.get_running_loop().time() + within
            return await Asker().ask(question(url, model, tokens, "0123", prompt=prompt), deadline)

        found = asyncio.run(story())
        return found.result, found.generated

    assert ask("chat", "FAIL 0") == ("failed", 0), "HTTP 400, in a stream"
    assert ask("chat", "FAIL 3") == ("failed", 3), "HTTP 200"
    assert ask("ensemble", "FAIL 3") == ("failed", 3)
    assert ask("stream") == ("bad_request", 0), "no text_input"
    assert ask("nobody") == ("not_found", 0)
    assert ask("classify") == ("ok", 1), "one answer that isn't streamed"
    # Who goes is noticed: the model ends, nothing is left running.
    result, tokens = ask("chat", "ABANDONED", tokens=1000, within=0.4)
    assert result == "timeout" and tokens < 1000
    ended = wait_for(
        lambda: [one for one in spoken(triton.repository, "chat") if "ABANDONED" in one.asked["text_input"]],
        8.0,
        name="the model ends",
    )
    assert [one.ended for one in ended] == ["cancelled"]


def a_model_that_cannot_be_loaded_makes_the_server_not_ready(triton: Triton, beside: Sidecar) -> None:
    assert triton.ask("/v2/repository/models/broken/load", {})[0] == 400
    wait_for(lambda: beside.get("target_ready") == 0, 15.0, name="not ready")
    beside.comes_to(1, "target_live")
    beside.comes_to(1, "target_up")


STORY = (
    what_runs_is_found,
    a_backlog_is_seen_while_it_stands_and_counted_when_it_is_gone,
    an_ensemble_counts_once,
    cache_hits_are_not_computed,
    versions_stay_apart,
    a_stream_has_no_latency_of_tritons,
    a_model_that_is_loaded_again_goes_on_counting,
    failed_answers_are_a_lower_bound_and_exceptions_are_counted,
    probes_are_timed_and_counted_as_the_model_and_triton_do,
    an_ensemble_is_asked_in_its_models_stead,
    what_triton_refuses_and_what_its_model_fails_at_are_told_apart,
    a_model_that_cannot_be_loaded_makes_the_server_not_ready,
)


def test_the_sidecar_and_the_client_agree(both: tuple[Triton, Sidecar]) -> None:
    for chapter in STORY:
        chapter(*both)
