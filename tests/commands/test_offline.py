"""map, doctor and replay on real captured pages, as a user calls them."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest

from sidecar.cli import main

PAGES = Path(__file__).parent / "pages"
QUEUE = str(PAGES / "vllm_0.32_queue.txt")
STATS_OFF = str(PAGES / "vllm_0.32_stats_off.txt")


def test_map_gives_the_normalised_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["map", QUEUE]) == 0
    page = capsys.readouterr().out
    head = 'target="local",runtime="vllm",model_name="model/tiny-llama"'
    # Read from the page by hand: running 4, waiting 12, 63 finished by length, 67 first tokens.
    assert f"inference_requests_running{{{head}}} 4\n" in page
    assert f"inference_requests_waiting{{{head}}} 12\n" in page
    assert f'inference_requests_finished_total{{{head},reason="length"}} 63\n' in page
    assert f"inference_time_to_first_token_seconds_count{{{head}}} 67\n" in page
    assert f"inference_generation_tokens_total{{{head}}} 23845\n" in page


def test_map_as_json_tells_the_provenance(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["map", QUEUE, "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["runtime"] == "vllm"
    by_signal = {one["signal"]: one for one in told["provenance"]}
    assert by_signal["requests_running"]["source"] == "vllm:num_requests_running"
    assert by_signal["requests_total:cancelled"]["method"] == "estimated"
    assert by_signal["request_slots"]["status"] == "not_exposed"
    (ttft,) = (one for one in told["signals"] if one["signal"] == "time_to_first_token_seconds")
    assert ttft["count"] == 67
    assert ttft["buckets"]["+Inf"] == 67


def test_map_reads_gzip_and_several_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = tmp_path / "second.prom"
    packed.write_bytes(gzip.compress(Path(QUEUE).read_bytes()))
    assert main(["map", QUEUE, str(packed)]) == 0
    page = capsys.readouterr().out
    assert page.count("# TYPE inference_requests_running gauge\n") == 1
    assert 'target="second"' in page
    assert 'target="vllm_0.32_queue"' in page


def test_map_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["map", str(tmp_path / "missing.txt")]) == 2
    assert "missing.txt: No such file" in capsys.readouterr().err
    other = tmp_path / "login.html"
    other.write_text("<html>login</html>")
    assert main(["map", str(other)]) == 1
    assert "not a metrics page" in capsys.readouterr().err
    assert main(["map", QUEUE, "--runtime", "vlm"]) == 2
    assert "unknown runtime vlm" in capsys.readouterr().err
    cut = tmp_path / "cut.txt"
    cut.write_bytes(Path(QUEUE).read_bytes()[:-200])
    main(["map", str(cut)])
    assert "the page may be cut" in capsys.readouterr().err


def test_doctor_on_a_page_fits_a_terminal_and_names_the_mend(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", QUEUE]) == 0
    report = capsys.readouterr().out
    assert "vllm:num_requests_running" in report
    assert "set `capacity.slots`" in report
    assert "--speculative-config" in report
    assert max(map(len, report.splitlines()[1:])) <= 80


def test_doctor_names_the_flag_that_switches_the_metrics_off(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", STATS_OFF, "--runtime", "vllm"]) == 1
    assert "--disable-log-stats" in capsys.readouterr().out


def test_doctor_on_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "http://127.0.0.1:9/metrics", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["up"] is False
    assert "refused" in told["findings"][0]["what"]
    assert told["findings"][0]["mend"]


def test_replay_gives_signals_over_time(capsys: pytest.CaptureFixture[str]) -> None:
    signals = ["requests_running", "requests_waiting", "requests_waiting_peak", "time_to_first_token_seconds"]
    assert main(["replay", str(PAGES / "series"), "--csv", *signals]) == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows[0] == ["time", "page", *signals]
    assert [row[1:] for row in rows[1:]] == [
        ["003.txt", "0", "0", "0", "7"],
        ["004.txt", "4", "12", "12", "15"],
        ["005.txt", "4", "12", "12", "23"],
        ["006.txt", "4", "12", "12", "31"],
    ]


def test_replay_gives_the_last_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(PAGES / "series"), "--interval", "2"]) == 0
    page = capsys.readouterr().out
    assert "inference_requests_waiting_peak" in page
    assert 'inference_target_scrapes_total{target="local",runtime="vllm",result="ok"} 4\n' in page


def test_replay_of_an_empty_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(tmp_path)]) == 2
    assert "no page" in capsys.readouterr().err


def test_doctor_checks_a_users_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text(
        "groups: [{name: g, rules: [{alert: A, expr: 'avg(inference_kv_cache_usage_perc) > 0.9'}]}]\n"
    )
    assert main(["doctor", "--rules", str(rules)]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "did you mean inference_kv_cache_usage_ratio" in told
    rules.write_text("groups: [{name: g, rules: [{alert: A, expr: 'inference_target_up == 0'}]}]\n")
    assert main(["doctor", "--rules", str(rules)]) == 0
    assert main(["doctor"]) == 2


def test_a_broken_gzip_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "page.gz"
    broken.write_bytes(b"\x1f\x8b" + b"\x08\x00" + b"nonsense" * 9)
    assert main(["map", str(broken)]) == 2
    assert "page.gz" in capsys.readouterr().err


def test_check_config_refuses_an_alert_that_can_never_fire(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(
        "slos: [{name: e2e, signal: e2e_request_latency, threshold: 10s, objective: 90%, period: 30d}]\n"
    )
    assert main(["check-config", str(config)]) == 2
    assert "c.yaml:1" in capsys.readouterr().err
