"""Every operational alert in Prometheus' own rule tester: fires, doesn't, resolves, is silent when blind."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from sidecar.schema import SIGNALS
from sidecar.slo.rules import Alerting, Rule, plain
from sidecar.slo.rules.operational import OPERATIONAL, operational_groups
from tests.integration.real_servers import program
from tests.slo.stories import LABELS, STORIES, Counter, Gauge, Story, case, notation, up

BASE = "https://runbooks.example/"

#: Fire in another way than by an illness of their own series; their cases are below.
APART = {"InferenceSidecarAbsent", "InferenceSchemaCoverageFell"}


def promtool(folder: Path, tests: list[dict[str, Any]], evaluation: str = "1m") -> None:
    """Run cases; each suite holds only the rule that it is about, which is what makes this quick."""
    suites: dict[str, list[dict[str, Any]]] = {}
    for one in tests:
        suites.setdefault(one["name"].partition(":")[0], []).append(one)
    for name, cases in suites.items():
        rules = [
            replace(group, rules=tuple(rule for rule in group.rules if _is(rule, name)))
            for group in operational_groups(BASE)
        ]
        (folder / f"{name}.rules.yaml").write_text(plain(rules))
        suite = {"rule_files": [f"{name}.rules.yaml"], "evaluation_interval": evaluation, "tests": cases}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(suite, sort_keys=False))
    done = subprocess.run(
        [program("promtool"), "test", "rules", *(f"{name}.yaml" for name in suites)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _is(rule: Rule, name: str) -> bool:
    return isinstance(rule, Alerting) and rule.alert == name


def test_every_alert_has_a_story() -> None:
    assert {story.alert for story in STORIES} | APART == {one.name for one in OPERATIONAL}


def test_stories(tmp_path: Path) -> None:
    promtool(tmp_path, [story.case() for story in STORIES])


def test_a_counter_that_starts_anew_fires_nothing(tmp_path: Path) -> None:
    counting = [story for story in STORIES if any(isinstance(part, Counter) for part in story.parts.values())]
    assert len(counting) >= 5
    cases = []
    for story in counting:
        series = [
            {"series": name, "values": "5000x30 0x60" if isinstance(part, Counter) else "1x90"}
            for name, part in story.parts.items()
        ]
        cases.append(case(f"{story.alert}: reset", story.alert, series, dict.fromkeys(range(16, 90, 7), 0)))
    promtool(tmp_path, cases)


def test_stories_can_fail(tmp_path: Path) -> None:
    """The tester does see an alert that does not fire when it should."""
    never = Story("InferenceTargetWedged", {f"inference_target_wedged{{{LABELS}}}": Gauge(0, 0)}, fires=2)
    with pytest.raises(AssertionError, match="FAILED"):
        promtool(tmp_path, [never.case()])


def test_nothing_at_all_fires_only_the_absent_sidecar(tmp_path: Path) -> None:
    quiet = [one.name for one in OPERATIONAL if one.name != "InferenceSidecarAbsent"]
    unrelated = [{"series": "unrelated", "values": "1x30"}]
    tests = [case(f"{name}: nothing", name, unrelated, {30: 0}) for name in quiet]
    present = {"series": 'inference_sidecar_build_info{job="sidecar"}', "values": "_x12 1x10 stale _x20"}
    tests.append(
        case(
            "InferenceSidecarAbsent: absent",
            "InferenceSidecarAbsent",
            [present],
            {9: 0, 11: 1, 20: 0, 30: 0, 35: 1, 40: 1},
        )
    )
    promtool(tmp_path, tests)


def test_a_page_that_cannot_be_read_is_not_a_dead_target(tmp_path: Path) -> None:
    ill = [False] * 30 + [True] * 60
    series = [
        {"series": name, "values": notation(part.values(ill))}
        for name, part in {
            **up(1, 0),
            f'inference_target_scrapes_total{{{LABELS}, result="not_metrics"}}': Counter(0, 6),
        }.items()
    ]
    promtool(
        tmp_path,
        [
            case("InferenceSidecarBlind: blind", "InferenceSidecarBlind", series, {80: 1}),
            case("InferenceTargetDown: not down", "InferenceTargetDown", series, {80: 0}),
        ],
    )


def test_one_replica_of_two_pages_nobody(tmp_path: Path) -> None:
    def replica(pod: str, up: str, model: str = "m") -> list[dict[str, str]]:
        labels = LABELS.replace("pod-a", pod)
        info = f'inference_slo_info{{{labels}, model_name="{model}", slo="ttft", status="ok"}}'
        return [
            {"series": f"inference_target_up{{{labels}}}", "values": up},
            {"series": info, "values": "1x61"},
        ]

    alone = [*replica("pod-a", "1x30 0x30"), *replica("pod-b", "1x61", model="other")]
    gone = [*replica("pod-a", "1x30 stale _x30"), *replica("pod-b", "1x61")]
    beside = [*replica("pod-a", "1x30 0x30"), *replica("pod-b", "1x61")]
    promtool(
        tmp_path,
        [
            case("InferenceTargetDown: a ticket", "InferenceTargetDown", beside, {50: 1}),
            case("InferenceModelDown: no page", "InferenceModelDown", beside, {50: 0}),
            case("InferenceModelDown: scaled down", "InferenceModelDown", gone, {50: 0}),
            case("InferenceModelDown: the other model doesn't help", "InferenceModelDown", alone, {50: 1}),
        ],
    )


@pytest.mark.parametrize(("xid", "fires"), [("79", 1), ("48", 1), ("31", 0), ("13", 0)])
def test_an_applications_own_xid_is_no_fault_of_the_board(tmp_path: Path, xid: str, fires: int) -> None:
    selector = f'inference_gpu_xid_errors_total{{gpu_uuid="GPU-1", xid="{xid}"}}'
    series = [{"series": selector, "values": "0x20 1x30"}]
    promtool(tmp_path, [case(f"InferenceGpuXid: {xid}", "InferenceGpuXid", series, {22: fires, 45: 0})])


def test_a_preemption_with_a_roomy_cache_is_nothing(tmp_path: Path) -> None:
    series = [
        {"series": f'inference_kv_cache_usage_ratio{{{LABELS}, model_name="m"}}', "values": "0.5x60"},
        {"series": f'inference_preemptions_total{{{LABELS}, model_name="m"}}', "values": "0+3x60"},
    ]
    promtool(tmp_path, [case("InferenceKvCacheFull: roomy", "InferenceKvCacheFull", series, {55: 0})])


def test_a_long_queue_that_shrinks_is_nothing(tmp_path: Path) -> None:
    labels = f'{LABELS}, model_name="m"'
    series = [
        {"series": f"inference_requests_waiting{{{labels}}}", "values": "1000-10x60"},
        {"series": f"inference_requests_running{{{labels}}}", "values": "16x60"},
    ]
    promtool(
        tmp_path, [case("InferenceQueueGrowing: shrinks", "InferenceQueueGrowing", series, {30: 0, 58: 0})]
    )


def test_an_upgrade_that_loses_a_signal_is_told_for_a_day(tmp_path: Path) -> None:
    def of(signal: str, values: str) -> dict[str, str]:
        selector = f'inference_signal_info{{{LABELS}, signal="{signal}", status="ok"}}'
        return {"series": selector, "values": values}

    lost = [
        {"series": f"inference_target_up{{{LABELS}}}", "values": "1x300"},
        of("requests_running", "1x300"),
        of("requests_waiting", "1x150 stale _x150"),
    ]
    kept = [lost[0], of("requests_running", "1x300"), of("requests_waiting", "1x300")]
    down = [{"series": f"inference_target_up{{{LABELS}}}", "values": "1x149 0x150"}, *lost[1:]]
    name = "InferenceSchemaCoverageFell"
    promtool(
        tmp_path,
        [
            case(f"{name}: lost", name, lost, {149: 0, 156: 1, 290: 1, 299: 0}, minutes=10),
            case(f"{name}: kept", name, kept, {156: 0, 290: 0}, minutes=10),
            case(f"{name}: down is not an upgrade", name, down, {156: 0, 290: 0}, minutes=10),
        ],
        evaluation="10m",
    )


def test_descriptions_are_rendered(tmp_path: Path) -> None:
    tests = []
    for story in STORIES:
        if not story.says:
            continue
        rule = next(one for one in OPERATIONAL if one.name == story.alert).rule(BASE)
        labels = dict(re.findall(r'(\w+)="([^"]*)"', next(iter(story.parts))))
        summary = rule.annotations["summary"]
        for key, value in labels.items():
            summary = summary.replace(f"{{{{ $labels.{key} }}}}", value)
        annotations = {**rule.annotations, "summary": summary, "description": story.says}
        expected = {"exp_labels": {**labels, **rule.labels}, "exp_annotations": annotations}
        fires = story.case()
        del fires["promql_expr_test"]
        at = f"{story.before + story.fires}m"
        fires["alert_rule_test"] = [{"alertname": story.alert, "eval_time": at, "exp_alerts": [expected]}]
        tests.append(fires)
    assert len(tests) >= 5
    promtool(tmp_path, tests)


def test_names_are_those_of_the_schema() -> None:
    families = {signal.family for signal in SIGNALS.values()}
    for one in OPERATIONAL:
        for name in re.findall(r"inference_[a-z0-9_]+", one.expr):
            assert name in families, f"{one.name}: {name} is not in the schema"
