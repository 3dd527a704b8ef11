"""Life of a target through the pipeline: restarts, hangs, start-up, staleness, a change of runtime."""

from __future__ import annotations

import json
from math import isnan

import pytest
from vllm_pages import REFUSED, page

from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry
from sidecar.snapshot import Block, Provenance, Snapshot

REGISTRY = Registry()


class Line:
    """A pipeline with a clock of its own."""

    def __init__(self, **settings: object) -> None:
        self.pipeline = TargetPipeline(Settings(**settings), REGISTRY)  # type: ignore[arg-type]
        self.now = 1000.0

    def at(self, seconds: float, answer: Answer) -> Snapshot:
        self.now = 1000.0 + seconds
        return self.pipeline.feed({"metrics": answer}, time=1.7e9 + seconds, mono=self.now)


def test_a_fall_of_any_count_is_a_restart_of_the_whole_target() -> None:
    line = Line()
    assert line.at(0, page(generated=100, finished=10)).epoch == 0
    assert line.at(2, page(generated=150, finished=11)).epoch == 0
    snapshot = line.at(4, page(generated=160, finished=2))
    assert snapshot.epoch == 1
    assert snapshot.life.get("target_restarts_total") == 1
    assert line.at(6, page(generated=170, finished=3)).epoch == 1


def test_a_queue_time_sum_may_fall_without_a_restart() -> None:
    """vLLM can observe negative queue times: the sum falls while the count rises."""
    line = Line()
    line.at(0, page(finished=10, queue_sum=4.0))
    snapshot = line.at(2, page(finished=11, queue_sum=-44.0))
    assert snapshot.epoch == 0
    assert snapshot.life.get("target_restarts_total") == 0


def test_a_start_time_that_moves_is_a_restart_though_no_count_fell() -> None:
    line = Line()
    line.at(0, page(start=1.7e9 - 100))
    assert line.at(2, page(start=1.7e9 - 100.5)).epoch == 0
    assert line.at(4, page(start=1.7e9 + 3)).epoch == 1


def test_a_series_that_comes_or_goes_is_not_a_restart() -> None:
    line = Line()
    line.at(0, page(generated=100, finished=10))
    more = page(generated=120, finished=10, extra='vllm:num_preemptions_total{engine="0",model_name="m"} 5\n')
    assert line.at(2, more).epoch == 0
    assert line.at(4, page(generated=130, finished=10)).epoch == 0


def test_a_hung_engine_is_wedged_whatever_its_health_says() -> None:
    line = Line(wedged_after=60.0)
    line.pipeline.learn("health", Answer(200))
    line.at(0, page(running=2, waiting=4, generated=1000))
    line.at(2, page(running=2, waiting=4, generated=1010))
    snapshot = line.at(32, page(running=2, waiting=4, generated=1010))
    assert snapshot.life.get("progress_age_seconds") == pytest.approx(30)
    assert snapshot.life.get("target_wedged") == 0
    snapshot = line.at(70, page(running=2, waiting=4, generated=1010))
    assert snapshot.life.get("target_wedged") == 1
    assert line.at(72, page(running=2, waiting=4, generated=1011)).life.get("target_wedged") == 0


def test_a_hang_goes_on_through_a_lost_scrape() -> None:
    line = Line(wedged_after=60.0)
    line.at(0, page(running=2, generated=1000))
    line.at(2, page(running=2, generated=1010))
    slow = line.at(40, Answer(error="timeout"))
    assert isnan(slow.life.get("target_wedged"))
    assert line.at(70, page(running=2, generated=1010)).life.get("target_wedged") == 1


def test_an_idle_engine_ages_not() -> None:
    line = Line(wedged_after=5.0)
    for second in range(0, 40, 2):
        snapshot = line.at(second, page(generated=1000))
    assert isnan(snapshot.life.get("progress_age_seconds"))
    assert snapshot.life.get("target_wedged") == 0


def test_data_vanishes_past_its_age_and_the_life_signals_stay() -> None:
    line = Line(staleness=10.0)
    line.at(0, page(running=3))
    fresh = line.at(8, REFUSED)
    assert not fresh.up
    assert fresh.data.get("requests_running") == 3
    stale = line.at(12, REFUSED)
    assert isnan(stale.data.get("requests_running"))
    assert stale.life.get("target_up") == 0
    assert stale.life.get("target_last_success_timestamp_seconds") == 1.7e9
    assert stale.life.get("target_scrapes_total", result="refused") == 2
    assert stale.reasons["scrape"] == REFUSED.detail
    assert line.at(14, page(running=1)).data.get("requests_running") == 1


def test_the_phases_of_a_cold_start_sum_to_it() -> None:
    line = Line()
    line.pipeline.learn("health", Answer(error="refused"))
    line.at(0, REFUSED)
    line.at(10, REFUSED)
    line.pipeline.learn("health", Answer(503))
    line.at(20, page())
    line.pipeline.learn("health", Answer(200))
    line.at(30, page())
    snapshot = line.at(40, page(generated=1))
    phases = {
        one.label("phase"): snapshot.life.values[one.start]
        for one in snapshot.life.layout.by_signal["startup_phase_seconds"]
    }
    assert phases == {"to_port": 20, "to_healthy": 0, "to_ready": 10, "to_first_token": 10}


def test_nothing_is_said_of_a_start_that_was_not_seen() -> None:
    line = Line()
    snapshot = line.at(0, page(generated=5))
    assert all(
        isnan(snapshot.life.values[one.start])
        for one in snapshot.life.layout.by_signal["startup_phase_seconds"]
    )


def test_cancellations_are_what_began_and_never_finished() -> None:
    line = Line()
    line.at(0, page(first_tokens=10, finished=8, running=2))
    snapshot = line.at(2, page(first_tokens=14, finished=11, running=0))
    assert snapshot.data.get("requests_total", outcome="cancelled") == 3
    # What runs may have had its first token or not: the bound never falls, and never counts it twice.
    snapshot = line.at(4, page(first_tokens=16, finished=11, running=4))
    assert snapshot.data.get("requests_total", outcome="cancelled") == 3
    assert snapshot.epoch == 0


def test_another_runtime_under_the_same_address_is_noticed() -> None:
    line = Line()
    assert line.at(0, page()).runtime == "vllm"
    other = Answer(
        200,
        b"# TYPE nv_inference_request_success counter\n"
        b'nv_inference_request_success{model="m",version="1"} 3\n'
        b"# TYPE nv_inference_count counter\n"
        b'nv_inference_count{model="m",version="1"} 3\n',
    )
    if "triton" not in REGISTRY.names:
        pytest.skip("triton has no adapter yet")
    assert line.at(2, other).runtime == "triton"
    assert line.at(4, page()).runtime == "vllm"


def test_facts_of_endpoints_reach_the_info_metrics() -> None:
    line = Line()
    line.at(0, page())
    line.pipeline.learn("version", Answer(200, b'{"version":"0.32.0"}'))
    models = {"data": [{"id": "m", "root": "/models/m", "max_model_len": 1024}, {"id": "sql", "parent": "m"}]}
    line.pipeline.learn("models", Answer(200, json.dumps(models).encode()))
    snapshot = line.at(2, page())
    assert snapshot.life.get("runtime_info", version="0.32.0", engine="vllm") == 1
    assert snapshot.life.get("model_info", model_name="m", max_context_tokens="1024") == 1
    assert isnan(snapshot.life.get("model_info", model_name="sql"))


@pytest.mark.parametrize("body", [b"not json", b"[]", b'{"version": 3}', b'{"data": [1, null]}', b""])
def test_a_strange_answer_of_an_endpoint_harms_nothing(body: bytes) -> None:
    line = Line()
    for name in ("health", "version", "models"):
        line.pipeline.learn(name, Answer(200, body))
    assert line.at(0, page(running=1)).data.get("requests_running") == 1


def test_a_page_that_is_not_metrics_is_a_failed_scrape_with_its_reason() -> None:
    line = Line(runtime="vllm")
    snapshot = line.at(0, Answer(200, b"<html><body>login</body></html>"))
    assert not snapshot.up
    assert snapshot.life.get("target_scrapes_total", result="not_metrics") == 1
    assert "login" in snapshot.reasons["scrape"]


def test_the_config_may_tell_the_slots() -> None:
    line = Line(slots=256)
    snapshot = line.at(0, page())
    assert snapshot.data.get("request_slots") == 256
    assert any(one.signal == "request_slots" and one.method == "assumed" for one in snapshot.provenance)


def test_the_cap_on_series_drops_whole_series_and_counts_them() -> None:
    line = Line(max_series=5)
    snapshot = line.at(0, page(running=1, finished=3))
    assert snapshot.data.get("requests_running") == 1
    assert "time_to_first_token_seconds" not in snapshot.data.layout.by_signal
    assert line.pipeline.dropped > 0


def test_an_address_that_is_gone_for_a_while_takes_no_count_along() -> None:
    """An estimate is the highest that its bound has been: forgotten, it would fall, as if of a new process."""
    line = Line()
    line.at(0, page(finished=10))
    assert (
        line.at(2, page(finished=10, first_tokens=30)).data.get("requests_total", outcome="cancelled") == 20
    )
    line.at(4, Answer(error="not_found", detail="HTTP 404"))
    back = line.at(6, page(finished=11, first_tokens=31, running=15))
    assert back.data.get("requests_total", outcome="cancelled") == 20
    assert back.epoch == 0


TRITON = Answer(
    200,
    b'# TYPE nv_inference_request_success counter\nnv_inference_request_success{model="a",version="1"} 7\n',
)


def test_another_runtime_at_the_same_address_is_another_process_once() -> None:
    line = Line()
    line.at(0, page(finished=10, start=1.7e9 - 50))
    assert line.at(2, TRITON).epoch == 1
    assert line.at(4, TRITON).epoch == 1
    back = line.at(6, page(finished=10, start=1.7e9 + 5))
    assert back.epoch == 2
    assert back.life.get("target_restarts_total") == 2
    line.at(8, Answer(error="not_found", detail="HTTP 404"))
    assert line.at(10, TRITON).epoch == 3


def test_data_past_its_age_vanish_without_another_tick() -> None:
    line = Line(staleness=10.0)
    line.at(0, page(finished=10))
    assert line.at(4, REFUSED).data.layout.size
    assert line.pipeline.look_again(time=1.7e9 + 9, mono=1009.0).data.layout.size
    late = line.pipeline.look_again(time=1.7e9 + 10.1, mono=1010.1)
    assert not late.data.layout.size
    assert late.reasons == {"scrape": REFUSED.detail}
    assert late.life.get("target_scrapes_total", result="refused") == 1, "nobody has asked again"


def test_a_target_that_nobody_manages_to_read_is_not_up_when_its_numbers_are_gone() -> None:
    line = Line(staleness=10.0)
    line.at(0, page(finished=10))
    late = line.pipeline.look_again(time=1.7e9 + 10.1, mono=1010.1)
    assert not late.up
    assert late.life.get("target_up") == 0
    assert late.reasons["scrape"]
    assert line.at(12, page(finished=11)).up


class Broken:
    """A stage that can't bear what it is fed with."""

    provenance: tuple[Provenance, ...] = ()

    def feed(self, snapshot: Snapshot) -> Block | None:
        raise ZeroDivisionError


def test_a_stage_that_fails_takes_no_number_of_the_runtime_along(caplog: pytest.LogCaptureFixture) -> None:
    pipeline = TargetPipeline(Settings(), REGISTRY, [Broken()])
    for second in range(3):
        snapshot = pipeline.feed(
            {"metrics": page(finished=second)}, time=1.7e9 + second, mono=1000.0 + second
        )
        assert snapshot.data.get("requests_total", outcome="success") == second
        assert snapshot.reasons == {"Broken": "failed: ZeroDivisionError"}
    assert [record.message for record in caplog.records] == ["Broken of target local failed"]
