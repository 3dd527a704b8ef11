"""A user's rules and dashboards against the schema: what is found, and what is left in peace."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.slo import Level
from sidecar.slo.lint import ParserMissing, lint, metrics_of_page
from sidecar.slo.lint.places import Unreadable, queries, without_variables

ROOT = Path(__file__).parents[2]
TTFT = "inference_time_to_first_token_seconds"
E2E = "inference_e2e_request_latency_seconds"


def codes(expression: str, target: dict[str, list[str]] | None = None) -> list[str]:
    rules = json.dumps({"groups": [{"name": "g", "rules": [{"record": "mine:x", "expr": expression}]}]})
    return [one.code for one in lint({"rules.json": rules}, target)[0]]


@pytest.mark.parametrize(
    "expression",
    [
        "sum by (model_name) (rate(inference_generation_tokens_total[5m]))",
        'inference_requests_waiting{model_name=~"m.*", namespace="prod"} > 5',
        f"histogram_quantile(0.95, sum by (le, model_name) (rate({TTFT}_bucket[5m])))",
        f"histogram_quantile(0.95, rate({TTFT}_bucket[5m]))",
        f"histogram_quantile(0.9, sum without (instance) (rate({E2E}_bucket[5m])))",
        f"rate({E2E}_sum[5m]) / rate({E2E}_count[5m])",
        "avg by (model_name) (inference_kv_cache_usage_ratio)",
        "sum(rate(inference_slo_bad_events_total[1h])) / sum(rate(inference_slo_events_total[1h]))",
        "absent(inference_requests_total)",
        "count by (runtime) (inference_requests_total)",
        "inference_sidecar_series_dropped_total unless inference_sidecar_series_dropped_total offset 15m",
        'inference_requests_total{outcome="error"} offset 1d unless inference_requests_total',
        "up == 0",
        "mine:x * 2",
        "max_over_time(deriv(inference_requests_waiting[5m])[1h:1m])",
        'sum(rate(inference_time_to_first_token_seconds_bucket{le="+Inf"}[5m]))',
        "topk(5, inference_slo_burn_rate)",
        "inference_slo_events_total @ end() unless inference_slo_events_total",
        "vector(1)",
    ],
)
def test_what_is_right_is_left_in_peace(expression: str) -> None:
    assert codes(expression) == []


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("sum(", "syntax"),
        ("rate(inference_requests_waiting)", "syntax"),
        ("inference_request_waiting", "unknown_metric"),
        ("vllm:num_requests_running", "unknown_metric"),
        ('inference_requests_waiting{modelname="m"}', "unknown_label"),
        ("sum by (modelname) (inference_requests_waiting)", "unknown_label"),
        ("inference_generation_tokens_total", "missing_rate"),
        ("sum(inference_requests_total) > 5", "missing_rate"),
        ("avg_over_time(inference_requests_total[5m])", "missing_rate"),
        (f"histogram_quantile(0.9, {TTFT}_bucket)", "missing_rate"),
        (
            f"{E2E}_sum / {E2E}_count",
            "missing_rate",
        ),
        ("rate(inference_requests_waiting[5m])", "rate_of_gauge"),
        ("rate(sum(inference_requests_total)[5m:])", "rate_of_sum"),
        (
            f"histogram_quantile(0.9, sum by (model_name) (rate({TTFT}_bucket[5m])))",
            "quantile_without_le",
        ),
        (
            f"avg(histogram_quantile(0.9, rate({TTFT}_bucket[5m])))",
            "average_of_quantiles",
        ),
        (
            "avg(rate(inference_slo_bad_events_total[5m]) / rate(inference_slo_events_total[5m]))",
            "average_of_ratios",
        ),
        ("avg(inference_slo_burn_rate)", "average_of_ratios"),
        ("avg_over_time(slo:sli_error:ratio_rate5m[30d])", "average_of_ratios"),
        (
            f"quantile(0.9, rate({E2E}_sum[5m]) / rate({E2E}_count[5m]))",
            "quantile_of_averages",
        ),
        ("quantile_over_time(0.9, avg(inference_requests_waiting)[1h:1m])", "quantile_of_averages"),
        ('sum(rate(inference_time_to_first_token_seconds_bucket{le="1"}[5m]))', "bound_as_text"),
    ],
)
def test_what_is_wrong_is_found(expression: str, code: str) -> None:
    assert code in codes(expression)


def test_a_mistyped_name_is_put_right() -> None:
    rules = "groups: [{name: g, rules: [{alert: A, expr: inference_request_waiting > 1}]}]"
    ((finding,), count) = lint({"mine.yaml": rules})
    assert finding.level is Level.ERROR
    assert "did you mean inference_requests_waiting?" in finding.message
    assert finding.subject == "mine.yaml: A"
    assert count == 1


def test_a_connected_targets_own_metrics_are_known() -> None:
    page = {"vllm:num_requests_running": ["model_name", "engine"], "vllm:request_success_total": ["engine"]}
    assert codes("sum by (engine) (vllm:num_requests_running)", page) == []
    assert codes('vllm:num_requests_running{rank="1", flavour="x"}', page) == ["unknown_label"] * 2
    assert codes("vllm:request_success_total > 1", page) == ["missing_rate"]


def test_a_page_gives_its_metrics_and_labels() -> None:
    text = '# TYPE v:x counter\nv:x_total{engine="0"} 1\n# TYPE h histogram\nh_bucket{le="1"} 1\nh_count 1\n'
    page = metrics_of_page(text)
    assert page["v:x_total"] == {"engine"}
    assert page["h_bucket"] == {"le"}
    assert page["h_count"] == frozenset()


def test_what_one_file_records_another_may_use() -> None:
    first = (
        "groups: [{name: g, rules: [{record: 'team:waiting:sum', expr: sum(inference_requests_waiting)}]}]"
    )
    second = "groups: [{name: g, rules: [{alert: A, expr: 'team:waiting:sum > 1'}]}]"
    assert lint({"a.yaml": first, "b.yaml": second}) == ([], 2)
    assert [one.code for one in lint({"b.yaml": second})[0]] == ["unknown_metric"]


def test_dashboards_are_read_to_the_bottom() -> None:
    dashboard = {
        "title": "mine",
        "panels": [
            {
                "title": "row",
                "type": "row",
                "panels": [{"title": "inner", "targets": [{"expr": "inference_nope"}]}],
            },
            {
                "title": "tokens",
                "targets": [
                    {
                        "expr": 'rate(inference_generation_tokens_total{model_name=~"$model"}[$__rate_interval])'
                    },
                    {"expr": "topk($top, inference_requests_waiting) > ${limit}"},
                    {"expr": "", "refId": "C"},
                    {"rawSql": "select 1"},
                ],
            },
        ],
        "templating": {
            "list": [
                {
                    "name": "model",
                    "type": "query",
                    "query": "label_values(inference_requests_waiting, model_name)",
                },
                {
                    "name": "bad",
                    "type": "query",
                    "query": {"query": "label_values(inference_requests_waiting, modell)"},
                },
                {"name": "ds", "type": "datasource", "query": "prometheus"},
            ]
        },
    }
    findings, count = lint({"dash.json": json.dumps(dashboard)})
    assert [(one.subject, one.code) for one in findings] == [
        ("dash.json: inner", "unknown_metric"),
        ("dash.json: $bad", "unknown_label"),
    ]
    assert count == 5


def test_a_prometheus_rule_is_read() -> None:
    text = "kind: PrometheusRule\nspec: {groups: [{name: g, rules: [{alert: A, expr: inference_nope}]}]}\n"
    assert [one.code for one in lint({"k8s.yaml": text + "---\n" + text})[0]] == ["unknown_metric"] * 2


@pytest.mark.parametrize(
    "text", ["just words", "a: [", "{", "[1, 2]", "panels: 5", "groups: no", "a: !!python/name:os.system"]
)
def test_what_is_neither_is_told(text: str) -> None:
    assert [one.code for one in lint({"x": text})[0]] == ["unreadable"]


@given(st.text(max_size=200) | st.recursive(st.none() | st.text(max_size=5), st.lists).map(json.dumps))
def test_no_text_raises_anything_else(text: str) -> None:
    try:
        found = queries("x", text)
    except Unreadable:
        return
    assert isinstance(found, list)


@given(st.text(alphabet="abr(){}[]$_,=~\"'5m+-/*:@ \\", max_size=60))
def test_no_expression_raises(expression: str) -> None:
    for one in (expression, without_variables(expression)):
        assert isinstance(codes(one), list)


def test_variables_in_strings_stay() -> None:
    assert without_variables('x{a=~"$model"}[$__interval]') == 'x{a=~"$model"}[5m]'
    assert without_variables("x[[[range]]]") == "x[5m]"
    assert without_variables("rate(x[$w:$s]) > $limit") == "rate(x[5m:1m]) > 1"


def test_without_the_parser_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "promql_parser", None)
    with pytest.raises(ParserMissing, match=r"inference-sidecar\[rules\]"):
        lint({})


def test_our_own_rules_pass() -> None:
    files = {path.name: path.read_text() for path in (ROOT / "alerts").glob("inference-*.yaml")}
    findings, count = lint(files)
    assert findings == []
    assert count > 100
