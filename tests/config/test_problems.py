"""Everything that is wrong is told in one go, with its place and its mend."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidecar.config import ConfigError, Problem, load, load_bytes


def problems(text: str, *overrides: str) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        load_bytes(text.encode(), "c.yaml", overrides)
    return caught.value.problems


def only(text: str) -> tuple[int, int, str, str, str]:
    (one,) = problems(text)
    return one.line, one.column, one.key, one.message, one.mend


MANY = """\
intervall: 2s
targets:
  - name: local
    url: http://127.0.0.1:8000
    runtime: vllmm
    bearer_token_file: /run/token
    capacity: {slots: many, idle_inter_token_latency: 9sm}
    tls: {key_file: key.pem}
  - url: ftp://somewhere
  - name: local
slos:
  - {name: ttft, signal: time_to_first_token, objective: 95, period: 9d}
  - {name: ok, signal: availability, threshold: 1s, objective: 99.9%}
  - {signal: goodput, objective: 99%}
gpu: nvml
"""

SAID = """\
c.yaml:1:1: intervall: unknown key
    did you mean interval?
c.yaml:5:5: targets[0].runtime: "vllmm" isn't a known runtime
    did you mean vllm?
c.yaml:6:5: targets[0].bearer_token_file: unknown key
    it belongs under auth
c.yaml:7:16: targets[0].capacity.slots: "many" isn't a whole number
    write digits only
c.yaml:7:29: targets[0].capacity.idle_inter_token_latency: "9sm" isn't a
    duration
    write it like 800ms, 5m or 1h30m
c.yaml:8:11: targets[0].tls.key_file: a key without its certificate
    give cert_file, too
c.yaml:9:5: targets[1]: "local" is the name of targets[0], too
    each one needs its own name
c.yaml:9:5: targets[1].url: "ftp://somewhere" isn't a URL
    write it like http://127.0.0.1:8000
c.yaml:10:5: targets[2].name: "local" is the name of targets[0], too
    each one needs its own name
c.yaml:12:5: slos[0].threshold: required for time_to_first_token
    write it like threshold: 800ms
c.yaml:12:47: slos[0].objective: 95 is more than the whole
    if it is a percentage, write 95%
c.yaml:12:62: slos[0].period: "9d" isn't a period that is known
    write one of 7d, 28d, 30d
c.yaml:13:38: slos[1].threshold: availability has none
    leave it out
c.yaml:14:5: slos[2].name: required
    Value of the label `slo`; unique. Write: name.
c.yaml:14:5: slos[2].thresholds: required for goodput
    write it like {time_to_first_token: 1s, time_per_output_token: 50ms}
c.yaml:15:1: gpu: expected a mapping, found text
    known keys are source, url, interval, timeout, devices, optional,
    pod_resources_socket, exit_on_loss"""


def test_all_in_one_go_in_file_order_and_within_80_columns() -> None:
    said = "\n".join(map(str, problems(MANY)))
    assert said == SAID
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize(
    ("text", "place", "key", "message", "mend"),
    [
        ("[1]", (1, 1), "", "expected keys, found a list", "begin with a line like `interval: 2s`"),
        ("hello", (1, 1), "", "expected keys, found text", "begin with a line like `interval: 2s`"),
        (
            "targets: {name: a}",
            (1, 1),
            "targets",
            "expected a list, found a mapping",
            "start each entry with `- `",
        ),
        ("interval: 10ms", (1, 1), "interval", '"10ms" is too small', "write at least 100ms"),
        ("interval: true", (1, 1), "interval", "true isn't a duration", "write it like 800ms, 5m or 1h30m"),
        (
            "interval: .inf",
            (1, 1),
            "interval",
            "Infinity isn't a duration",
            "write it like 800ms, 5m or 1h30m",
        ),
        (
            "listen: 9845",
            (1, 1),
            "listen",
            "9845 isn't an address",
            "write it like 0.0.0.0:9845 or [::1]:9845",
        ),
        ("scrape_interval: 5s", (1, 1), "scrape_interval", "unknown key", "write interval"),
        ("url: http://x", (1, 1), "url", "unknown key", "it belongs under targets[]"),
        (
            "targets: [{url: 127.0.0.1:8000}]",
            (1, 12),
            "targets[0].url",
            '"127.0.0.1:8000" isn\'t a URL',
            "write it like http://127.0.0.1:8000",
        ),
        (
            "targets: [{name: 7}]",
            (1, 12),
            "targets[0].name",
            "7 is a number, not a name",
            "put it in quotes",
        ),
        (
            "targets: [{metrics_path: metrics}]",
            (1, 12),
            "targets[0].metrics_path",
            '"metrics" isn\'t a path',
            "write it like /metrics",
        ),
        (
            "targets: [{staleness: 1s, interval: 5s}]",
            (1, 12),
            "targets[0].staleness",
            "values would vanish between two readings: staleness is shorter than interval",
            "three intervals is usual",
        ),
        (
            "targets: [{name: a}, {name: b}]",
            (1, 22),
            "targets[1].url",
            "reads the same page as a: everything would count twice",
            "remove one of the two",
        ),
        (
            "slos: [{name: a, signal: availability, objective: 100%}]",
            (1, 40),
            "slos[0].objective",
            '"100%" is too large',
            "write less than 100%",
        ),
        (
            "slos: [{name: a, signal: ttft, objective: 99%}]",
            (1, 18),
            "slos[0].signal",
            '"ttft" isn\'t one of time_to_first_token, inter_token_latency, time_per_output_token, '
            "e2e_request_latency, request_queue_time, probe_time_to_first_token, "
            "probe_inter_token_latency, availability, goodput",
            "",
        ),
        (
            "gpu: {source: nvmll}",
            (1, 7),
            "gpu.source",
            '"nvmll" isn\'t one of auto, nvml, dcgm, amd, intel, none',
            "did you mean nvml?",
        ),
        (
            "gpu: {devices: GPU-1}",
            (1, 7),
            "gpu.devices",
            '"GPU-1" isn\'t a list',
            "write it like [GPU-3b6a…]",
        ),
        ("probe: {max_tokens: 0}", (1, 9), "probe.max_tokens", "0 is too small", "write at least 1"),
        (
            "probe: {enabled: yes}",
            (1, 9),
            "probe.enabled",
            '"yes" isn\'t true or false',
            "write true or false",
        ),
        (
            "outputs: {otlp: {endpoint: collector:4317}}",
            (1, 18),
            "outputs.otlp.endpoint",
            '"collector:4317" isn\'t a URL',
            "write it like http://127.0.0.1:8000",
        ),
        ("mappings: [x]", (1, 12), "mappings[0]", "expected a mapping, found text", ""),
        (
            "cost: {currency: euro}",
            (1, 8),
            "cost.currency",
            "\"euro\" isn't a currency's code",
            "write it like USD",
        ),
    ],
)
def test_one_problem(text: str, place: tuple[int, int], key: str, message: str, mend: str) -> None:
    assert only(text) == (*place, key, message, mend)


@pytest.mark.parametrize(
    ("window", "key"),
    [
        ("{severity: page, short: 1h, long: 5m, factor: 14.4}", "long"),
        ("{severity: page, short: 5m, long: 1h}", "factor"),
        ("{severity: page, short: 5m, long: 1h, factor: 14.4, budget: 2%}", "factor"),
        ("{severity: loud, short: 5m, long: 1h, factor: 14.4}", "severity"),
    ],
)
def test_alert_windows(window: str, key: str) -> None:
    slo = f"slos: [{{name: a, signal: availability, objective: 99%, windows: [{window}]}}]"
    assert only(slo)[2] == f"slos[0].windows[0].{key}"


def test_goodput_names_its_thresholds() -> None:
    slo = "slos: [{{name: g, signal: goodput, objective: 99%, thresholds: {}}}]"
    assert load_bytes(slo.format("{time_to_first_token: 1s, inter_token_latency: 50ms}").encode(), "f").slos[
        0
    ].thresholds == {"time_to_first_token": 1.0, "inter_token_latency": 0.05}
    assert only(slo.format("{time_to_first: 1s}"))[3:] == (
        '"time_to_first" isn\'t a latency signal',
        "did you mean time_to_first_token?",
    )
    assert "isn't a duration" in only(slo.format("{time_to_first_token: soon}"))[3]


def test_an_own_mapping_makes_its_runtime_known() -> None:
    text = "targets: [{runtime: mine}]\nmappings: [{runtime: mine, signals: {}}]\n"
    assert load_bytes(text.encode(), "f").targets[0].runtime == "mine"
    assert only("targets: [{runtime: mine}]")[2] == "targets[0].runtime"


def test_text_and_keys_are_told_together() -> None:
    assert [one.message for one in problems("a: 1\na: 2\ninterval: !!str 2s\n")] == [
        "unknown key",
        "written twice, first on line 1",
        "tags aren't accepted",
    ]


def test_hostile_keys_can_not_write_on_the_terminal() -> None:
    (one,) = problems('"\\e[31m\\u202e' + "x" * 300 + '": 1')
    assert str(one).isascii() or "…" in str(one)
    assert "\x1b" not in str(one)
    assert len(one.key) < 60


def test_thousands_of_problems_are_cut() -> None:
    assert len(problems("\n".join(f"k{n}: 1" for n in range(5000)))) == 100


def test_files_that_can_not_be_read(tmp_path: Path) -> None:
    cases = {
        tmp_path / "none.yaml": "there is no such file",
        tmp_path: "this is a directory",
        Path("/proc/self/mem"): "it can't be read",
        "a\0b": "it can't be read",
    }
    for path, part in cases.items():
        with pytest.raises(ConfigError) as caught:
            load(path)
        assert part in caught.value.problems[0].message


def test_a_file_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("interval: 2s\n")
    path.chmod(0)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        with pytest.raises(ConfigError, match=r"denied|can't be read"):
            load(path)
    finally:
        if root:
            os.seteuid(0)


def test_an_empty_file_is_no_config(tmp_path: Path) -> None:
    """It is one that somebody is just writing."""
    path = tmp_path / "c.yaml"
    path.write_text("\n")
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert caught.value.problems[0].message == "the file is empty"
    path.write_text("# all defaults\n")
    assert load(path) == load()


def test_the_config_leads_back_to_its_text() -> None:
    config = load_bytes(b"mappings:\n  - runtime: mine\n    signals: {x: []}\n", "c.yaml")
    assert config.locate(("mappings", 0, "signals", "x")) == ("c.yaml", 3, 15)
    problem = config.problem(("mappings", 0, "signals", "x"), "no such signal", "see the schema")
    assert str(problem) == "c.yaml:3:15: mappings[0].signals.x: no such signal\n    see the schema"
