"""A target whose models change for ever: accounts of those that are gone end, and new ones are always judged."""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import isnan
from pathlib import Path

import pytest

from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry
from sidecar.slo.engine import SloEngine
from sidecar.slo.objective import Objective
from sidecar.slo.track import GONE, MOST_ACCOUNTS
from sidecar.slo.windows import DAY
from sidecar.snapshot import Block

PAGE = Path(__file__).parent.parent / "runtimes/triton/pages/captures/load_03_backlog_drained.prom"
REGISTRY = Registry()
AVAILABILITY = Objective("availability", "availability", 0.99, 7 * DAY)
NOW = 1796033477.0


class Server:
    """A captured Triton whose models are others, each with what the captured one had and more; read by a line."""

    def __init__(self, saved: dict[str, bytes] | None = None) -> None:
        body = PAGE.read_text()
        self._of_model = re.findall(r'^nv_inference_request_\w+\{.*model="slow".*$', body, re.MULTILINE)
        self._heads = re.findall(r"^# .* nv_inference_request_\w+ .*$", body, re.MULTILINE)
        self.engine = SloEngine([AVAILABILITY], saved)
        self.pipeline = TargetPipeline(Settings(runtime="triton", max_series=10**6), REGISTRY, [self.engine])
        self.mono = 0.0

    def page(self, models: Iterable[str], more: int) -> str:
        lines = list(self._heads)
        for model in models:
            for line in self._of_model:
                prefix, _, value = line.replace('"slow"', f'"{model}"').rpartition(" ")
                counts = "request_success" in prefix or 'reason="OTHER"' in prefix
                lines.append(f"{prefix} {int(value) + (more if counts else 0)}")
        return "\n".join(sorted(lines, key=_family)) + "\n"

    def read(self, models: Iterable[str], *, more: int = 0, seconds: float = 2.0) -> Block:
        self.mono += seconds
        body = self.page(models, more).encode()
        snapshot = self.pipeline.feed(
            {"metrics": Answer(200, body)}, time=NOW + self.mono, mono=1000 + self.mono
        )
        assert snapshot.up, snapshot.reasons
        return snapshot.extra[0]


def _family(line: str) -> tuple[str, bool]:
    words = line.split()
    return (words[2], False) if words[0] == "#" else (re.split(r"[{ ]", line)[0], True)


def events(block: Block, model: str) -> float:
    return block.get("slo_events_total", model_name=model)


def names(block: Block) -> set[str]:
    return {one.label("model_name") for one in block.layout.by_signal.get("slo_info", ())}


def test_the_account_of_a_model_that_is_gone_ends_when_no_window_reaches_back_to_it() -> None:
    server = Server()
    server.read(["old", "new"])
    server.read(["old", "new"], more=50)
    gone = server.read(["new"], more=50)
    assert names(gone) == {"old", "new"}
    assert events(gone, "old") == 100, "what was counted stays for as long as a window reaches"
    kept = server.read(["new"], more=60, seconds=7 * DAY - 1)
    assert names(kept) == {"old", "new"}
    ended = server.read(["new"], more=60, seconds=3)
    assert names(ended) == {"new"}
    assert events(ended, "new") == events(kept, "new") == 120, "and the one that lives is untouched"
    assert "slo_bad_events_total" in ended.layout.by_signal
    assert not list(ended.layout.find("slo_events_total", model_name="old"))


def test_a_window_of_the_living_is_the_same_before_and_after() -> None:
    server = Server()
    for tick in range(400):
        server.read(["a", "b", "c"], more=2 * tick)
    before = server.read(["b"], more=800)
    server.read(["b"], more=800, seconds=7 * DAY)
    for tick in range(200):
        block = server.read(["b"], more=800 + 2 * tick)
    assert names(before) == {"a", "b", "c"}
    assert names(block) == {"b"}
    # Half of what comes is a failure: a burn rate of 0.5 / 0.01.
    assert block.get("slo_burn_rate", window="5m", model_name="b") == pytest.approx(50, rel=0.01)


def test_a_target_that_is_down_ends_nothing() -> None:
    server = Server()
    server.read(["a", "b"])
    server.mono += 9 * DAY
    refused = server.pipeline.feed(
        {"metrics": Answer(error="refused")}, time=NOW + server.mono, mono=1000 + server.mono
    )
    assert names(refused.extra[0]) == {"a", "b"}
    assert names(server.read(["b"])) == {"a", "b"}


def test_where_there_are_too_many_the_longest_gone_makes_room() -> None:
    server = Server()
    first = [f"m{place}" for place in range(MOST_ACCOUNTS)]
    server.read(first)
    server.read(first[1:])
    server.read(first[2:])
    block = server.read([*first[2:], "late"])
    assert block.get("slo_accounts_refused") == 1, "gone for seconds: a page that is late must blind nobody"
    assert "late" not in names(block)
    (told,) = server.engine.problems
    assert "1 pairs" in told and "10 minutes" in told
    block = server.read([*first[2:], "late"], more=5, seconds=GONE)
    assert block.get("slo_accounts_refused") == 0
    assert {"late", "m1"} <= names(block)
    assert "m0" not in names(block)
    assert events(block, "late") == 0, "what it had counted before is no news"
    assert events(server.read([*first[2:], "late"], more=15), "late") == 20
    assert server.engine.problems == [told], "told once"


def test_all_of_them_alive_is_said_and_the_first_ones_are_judged() -> None:
    server = Server()
    many = [f"m{place}" for place in range(MOST_ACCOUNTS + 40)]
    for tick in range(5):
        block = server.read(many, more=tick, seconds=GONE)
    assert block.get("slo_accounts_refused") == 40
    assert names(block) == set(many[:MOST_ACCOUNTS])
    assert all(events(block, model) == 8 for model in many[:MOST_ACCOUNTS])
    assert [one.code for one in server.engine.findings("local") if one.level == "warning"] == ["too_many"]


def test_models_that_change_all_the_time_are_all_judged() -> None:
    """Three times as many as there is room for, ten at a time."""
    server = Server()
    for turn in range(3 * MOST_ACCOUNTS // 10):
        models = [f"m{turn}-{place}" for place in range(10)]
        before = server.read(models, seconds=60)
        block = server.read(models, more=3, seconds=60)
        assert block.get("slo_accounts_refused") == 0
        assert all(events(block, model) - events(before, model) == 6 for model in models)
    assert len(names(block)) <= MOST_ACCOUNTS


def test_a_model_that_is_back_after_its_account_ended_did_not_begin_just_now() -> None:
    server = Server()
    server.read(["a", "b"])
    server.read(["b"])
    server.read(["b"], seconds=8 * DAY)
    back = server.read(["a", "b"], more=1000)
    assert events(back, "a") == 0
    assert events(server.read(["a", "b"], more=1010), "a") == 20


def test_the_dead_end_over_a_restart_of_the_sidecar_too() -> None:
    server = Server()
    server.read(["a", "b"])
    server.read(["b"])
    for _ in range(7):
        server.read(["b"], seconds=DAY - 10)
        saved = server.engine.saved()
        later = Server(saved)
        later.mono = server.mono
        server = later
        block = server.read(["b"])
        assert names(block) == {"a", "b"}
        assert not isnan(block.get("slo_events_total", model_name="b"))
    assert names(server.read(["b"], seconds=120)) == {"b"}
    assert b'"model": "a"' not in server.engine.saved()["slo/local"]
