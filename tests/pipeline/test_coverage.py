"""What `signal_info` says of a signal is true of its series on each tick: on real pages with numbers that can't
be, and with more series than the cap lets through."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidecar.config import load_bytes
from sidecar.outputs.prometheus.page import render_blocks
from sidecar.outputs.signal_value import signal_value
from sidecar.pipeline import Settings, TargetPipeline
from sidecar.pipeline.diagnose import Level, diagnose
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry
from sidecar.schema import Kind, Method, Status
from sidecar.signals import Signals
from sidecar.slo.configured import objectives_of
from sidecar.slo.engine import SloEngine
from sidecar.snapshot import Publication, Series, Snapshot, is_absent

RUNTIMES = Path(__file__).parent.parent / "runtimes"
VLLM = "vllm/pages/03_s2_after_preempt.txt"
PAGES = (
    VLLM,
    "vllm/pages/11_s5_after_enginekill.txt",
    "triton/pages/captures/r26_two_gpus.prom",
    "triton/pages/captures/llm_1_eight_streams_two_run.prom",
    "nim/pages/samples/nim1_saturated.prom",
    "dynamo/pages/samples/fe_saturated.prom",
    "tensorrt_llm/pages/samples/prometheus_metrics_v13_saturated.prom",
)
REGISTRY = Registry()
SLOS = b"""
slos:
  - {name: ttft, signal: time_to_first_token, threshold: 1s, objective: 95%, period: 7d}
  - {name: availability, signal: availability, objective: 99%, period: 7d}
"""
#: A count that can't be, for a line of a real page.
LIES = ("NaN", "-5", "+Inf", "-Inf")


class Line:
    """A target's whole line, its clock and the pages it gets."""

    def __init__(self, page: str = VLLM, **given: object) -> None:
        self.body = (RUNTIMES / page).read_text()
        self.engine = SloEngine(objectives_of(load_bytes(SLOS, "test")))
        runtime = page.partition("/")[0]
        self.pipeline = TargetPipeline(
            Settings(runtime=runtime, **given),  # type: ignore[arg-type]
            REGISTRY,
            [self.engine, Signals()],
        )
        self.mono = 0.0

    def read(self, body: str | None = None) -> Snapshot:
        self.mono += 2.0
        answer = Answer(200, (self.body if body is None else body).encode())
        return self.pipeline.feed({"metrics": answer}, time=1796033477.0 + self.mono, mono=self.mono)


def changed(body: str, line: str, value: str) -> str:
    """The page with another value in all lines that a pattern finds."""
    new, found = re.subn(rf"^({line}.*) \S+$", rf"\1 {value}", body, flags=re.MULTILINE)
    assert found, line
    return new


def says(snapshot: Snapshot) -> dict[str, Status]:
    return {one.signal: one.status for one in snapshot.provenance}


def on_page(snapshot: Snapshot, signal: str) -> set[str]:
    """Statuses of a signal on the sidecar's own page."""
    page = render_blocks(snapshot.blocks).decode()
    return set(
        re.findall(rf'^inference_signal_info\{{.*signal="{signal}",status="(\w+)"', page, re.MULTILINE)
    )


def absent(snapshot: Snapshot, one: Series) -> bool:
    place = one.count_index if one.signal.kind is Kind.HISTOGRAM else one.start
    return is_absent(snapshot.data.values[place])


def test_a_count_that_can_not_be_is_said_and_taken_back() -> None:
    line = Line()
    before = line.read()
    assert on_page(before, "generation_tokens_total") == {"ok"}
    for lie in LIES:
        snapshot = line.read(changed(line.body, "vllm:generation_tokens_total", lie))
        assert is_absent(snapshot.data.get("generation_tokens_total"))
        assert on_page(snapshot, "generation_tokens_total") == {"invalid"}
        assert on_page(snapshot, "prompt_tokens_total") == {"ok"}, "of the others nothing changes"
        found = [one for one in diagnose(line.pipeline, snapshot).findings if "can't be used" in one.what]
        signals = [one.what.partition(":")[0] for one in found]
        assert signals == ["generation_tokens_total", "accepted_generation_tokens_total"]
        assert found[0].level is Level.PROBLEM
        after = line.read()
        assert on_page(after, "generation_tokens_total") == {"ok"}
        assert after.provenance == before.provenance
        assert after.data.get("generation_tokens_total") == before.data.get("generation_tokens_total")
    assert after.epoch == 0


def test_buckets_that_are_not_cumulative_are_said_and_what_is_made_of_them_too() -> None:
    line = Line()
    line.read()
    broken = changed(line.body, r'vllm:time_to_first_token_seconds_bucket\{.*le="0.1".*', "1e9")
    snapshot = line.read(broken)
    assert on_page(snapshot, "time_to_first_token_seconds") == {"invalid"}
    statuses = {one.label("slo"): one.label("status") for one in _rows(snapshot, "slo_info")}
    assert statuses == {"ttft": "not_measurable", "availability": "estimated"}
    assert not [one for one in _rows(snapshot, "slo_burn_rate", slo="ttft") if _there(snapshot, one)]
    snapshot = line.read()
    statuses = {one.label("slo"): one.label("status") for one in _rows(snapshot, "slo_info")}
    assert statuses == {"ttft": "ok", "availability": "estimated"}


def test_an_objective_counts_what_came_while_its_numbers_could_not_be_once() -> None:
    line = Line()
    line.read()
    broken = changed(line.body, r"vllm:time_to_first_token_seconds_bucket", "NaN")
    line.read(broken)
    more = changed(line.body, r'vllm:time_to_first_token_seconds_bucket\{.*le="(?!0\.)[^"]+"', "5000")
    snapshot = line.read(more)
    series = next(iter(snapshot.data.layout.by_signal["time_to_first_token_seconds"]))
    first = float(re.findall(r'time_to_first_token_seconds_bucket\{.*le="\+Inf".*\} (\S+)', line.body)[0])
    assert snapshot.data.values[series.count_index] == 5000
    (events,) = _rows(snapshot, "slo_events_total", slo="ttft")
    assert _value(snapshot, events) == 5000 - first


def test_numbers_that_can_not_be_from_the_start_are_no_news_afterwards() -> None:
    """A runtime whose counts can be read at last didn't count all that just now."""
    line = Line()
    line.read(changed(line.body, r"vllm:time_to_first_token_seconds_bucket", "NaN"))
    snapshot = line.read()
    (events,) = _rows(snapshot, "slo_events_total", slo="ttft")
    assert _value(snapshot, events) == 0


def test_what_is_derived_of_a_number_that_can_not_be_says_so() -> None:
    line = Line()
    before = line.read()
    assert on_page(before, "requests_waiting_peak") == {"ok"}
    broken = changed(line.body, "vllm:num_requests_waiting{", "-7")
    snapshot = line.read(broken)
    assert on_page(snapshot, "requests_waiting") == {"invalid"}
    assert on_page(snapshot, "requests_waiting_peak") == {"invalid"}
    assert not [one for one in _rows(snapshot, "requests_waiting_peak") if _there(snapshot, one)]
    assert on_page(line.read(), "requests_waiting_peak") == {"ok"}


def test_a_ratio_that_became_a_percentage_is_said_and_a_gauge_without_a_value_is_not() -> None:
    line = Line()
    line.read()
    assert (
        says(line.read(changed(line.body, "vllm:kv_cache_usage_perc", "63")))["kv_cache_usage_ratio"]
        == "invalid"
    )
    for nothing in ("NaN", "-1"):
        snapshot = line.read(changed(line.body, "vllm:kv_cache_usage_perc", nothing))
        assert is_absent(snapshot.data.get("kv_cache_usage_ratio"))
        assert says(snapshot)["kv_cache_usage_ratio"] == "ok"


def test_a_rank_below_zero_does_not_hide_in_the_sum() -> None:
    line = Line("vllm/pages/11_s5_after_enginekill.txt")
    line.read()
    for metric, signal in (
        ("generation_tokens_total", "generation_tokens_total"),
        ("num_requests_running", "requests_running"),
    ):
        snapshot = line.read(changed(line.body, rf'vllm:{metric}\{{engine="1"', "-5"))
        assert is_absent(snapshot.data.get(signal))
        assert on_page(snapshot, signal) == {"invalid"}
        assert on_page(line.read(), signal) == {"ok"}


def test_one_model_of_several_is_a_part_that_is_never_summed() -> None:
    line = Line("triton/pages/captures/load_03_backlog_drained.prom")
    line.read()
    models = re.findall(r'^nv_inference_request_success\{model="(\w+)"', line.body, re.MULTILINE)
    broken = changed(line.body, rf'nv_inference_exec_count\{{model="{models[0]}"', "NaN")
    snapshot = line.read(broken)
    assert says(snapshot)["model_executions_total"] == "invalid"
    there = [one for one in _rows(snapshot, "model_executions_total") if _there(snapshot, one)]
    assert len(there) == len(_rows(snapshot, "model_executions_total")) - 1
    publication = Publication(snapshot.time, (snapshot,))
    whole = signal_value(publication, "model_executions_total", {}, snapshot.time, 60)
    assert (whole.status, whole.body["reason"]) == (503, "absent")
    other = there[0].label("model_name")
    one = signal_value(publication, "model_executions_total", {"model_name": other}, snapshot.time, 60)
    assert one.status == 200


@pytest.mark.parametrize("page", PAGES)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(picks=st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(LIES)), min_size=1, max_size=4))
def test_ok_is_there_and_what_is_lost_is_not_ok(page: str, picks: list[tuple[int, str]]) -> None:
    """Whatever line of a real page lies: a signal that is said to be there has all of its counts."""
    line = Line(page)
    before = line.read()
    lines = line.body.split("\n")
    samples = [place for place, text in enumerate(lines) if text and not text.startswith("#")]
    for pick, lie in picks:
        place = samples[pick % len(samples)]
        lines[place] = lines[place].rpartition(" ")[0] + f" {lie}"
    snapshot = line.read("\n".join(lines))
    native = {
        one.signal for one in before.provenance if one.status is Status.OK and one.method is Method.NATIVE
    }
    now = says(snapshot)
    for one in snapshot.data.layout.series:
        name = one.signal.name
        if name in native and one.signal.kind is not Kind.GAUGE and absent(snapshot, one):
            assert now[name] is Status.INVALID, one
    for one in snapshot.provenance:
        if one.status is Status.INVALID:
            name = one.signal.partition(":")[0]
            lost = [series for series in _rows(snapshot, name) if not _whole(snapshot, series)]
            assert lost or one.method is not Method.NATIVE, one
    after = line.read()
    assert after.provenance == before.provenance
    assert after.epoch == 0
    for one in after.data.layout.series:
        if one.signal.kind is not Kind.GAUGE:
            numbers = slice(one.start, one.start + one.width)
            assert repr(after.data.values[numbers]) == repr(before.data.values[numbers]), one


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("cap", [3, 40, 200])
def test_over_the_cap_each_signal_that_is_cut_says_so(page: str, cap: int) -> None:
    whole, cut = Line(page).read(), Line(page, max_series=cap)
    snapshot = cut.read()
    assert cut.pipeline.dropped or cap == 200
    now = says(snapshot)
    for name, series in whole.data.layout.by_signal.items():
        missing = len(series) - len(snapshot.data.layout.by_signal.get(name, ()))
        told = {status for signal, status in now.items() if signal.partition(":")[0] == name}
        assert (Status.DROPPED in told) is (missing > 0), name
        if missing:
            assert "dropped" in {
                status
                for signal in now
                if signal.partition(":")[0] == name
                for status in on_page(snapshot, signal)
            }
            answer = signal_value(Publication(snapshot.time, (snapshot,)), name, {}, snapshot.time, 60)
            assert answer.status != 200, name
    if cut.pipeline.dropped:
        findings = diagnose(cut.pipeline, snapshot).findings
        assert any("left out" in one.what and "max_series" in one.mend for one in findings)


def test_failures_over_the_cap_leave_availability_unjudged() -> None:
    """Judged by its successes alone it would be perfect."""
    page = "triton/pages/captures/load_03_backlog_drained.prom"
    rows = [one.label("outcome") for one in Line(page).read().data.layout.by_signal["requests_total"]]
    for cap in range(1, len(rows) + 12):
        line = Line(page, max_series=cap)
        snapshot = line.read()
        kept = [one.label("outcome") for one in snapshot.data.layout.by_signal.get("requests_total", ())]
        if kept and kept != rows:
            statuses = {one.label("status") for one in _rows(snapshot, "slo_info", slo="availability")}
            assert statuses <= {"not_measurable"}, cap
            break
    else:
        pytest.fail("no cap cuts the outcomes")


def _rows(snapshot: Snapshot, signal: str, **labels: str) -> list[Series]:
    return [one for block in snapshot.blocks for one in block.layout.find(signal, **labels)]


def _value(snapshot: Snapshot, series: Series) -> float:
    block = next(block for block in snapshot.blocks if series in block.layout.series)
    place = series.count_index if series.signal.kind is Kind.HISTOGRAM else series.start
    return block.values[place]


def _there(snapshot: Snapshot, series: Series) -> bool:
    return not is_absent(_value(snapshot, series))


def _whole(snapshot: Snapshot, series: Series) -> bool:
    values = snapshot.data.values[series.start : series.start + series.width]
    return not any(map(is_absent, values))
