"""A data-parallel rank that vanishes, returns, or begins anew: on a real page of two ranks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry
from sidecar.snapshot import Snapshot

(PAGE,) = (Path(__file__).parents[1] / "runtimes" / "vllm" / "pages").glob("11_s5_after_enginekill.txt")
BOTH = PAGE.read_text()
FIRST = "".join(line for line in BOTH.splitlines(keepends=True) if 'engine="1"' not in line)
ANEW = re.sub(r'(\{[^}]*engine="1"[^}]*\}) [0-9.e+]+', r"\1 0.0", BOTH)


class Line:
    def __init__(self, runtime: str = "vllm") -> None:
        self.pipeline = TargetPipeline(Settings(runtime=runtime), Registry())
        self.now = 0.0

    def feed(self, text: str) -> Snapshot:
        self.now += 2.0
        return self.pipeline.feed(
            {"metrics": Answer(200, text.encode())}, time=1.8e9 + self.now, mono=self.now
        )


def tokens(snapshot: Snapshot) -> float:
    return snapshot.data.get("generation_tokens_total")


def first_tokens(snapshot: Snapshot) -> float:
    (series,) = snapshot.data.layout.by_signal["time_to_first_token_seconds"]
    buckets = snapshot.data.values[series.start : series.sum_index]
    assert list(buckets) == sorted(buckets)
    return snapshot.data.values[series.count_index]


def test_the_page_has_work_on_both_ranks() -> None:
    found = re.findall(r'^vllm:generation_tokens_total\{engine="(\d)"[^}]*\} ([0-9.e+]+)', BOTH, re.M)
    assert {rank: float(value) > 0 for rank, value in found} == {"0": True, "1": True}


@pytest.mark.parametrize("runtime", ["vllm", "nim"])
def test_a_rank_that_vanishes_is_no_restart_and_takes_no_count_along(runtime: str) -> None:
    line = Line(runtime)
    before = line.feed(BOTH)
    alone = line.feed(FIRST)
    assert alone.epoch == 0
    assert tokens(alone) == tokens(before)
    assert first_tokens(alone) == first_tokens(before)
    back = line.feed(BOTH)
    assert (back.epoch, tokens(back), first_tokens(back)) == (0, tokens(before), first_tokens(before))


def test_a_rank_that_begins_anew_adds_to_what_it_had() -> None:
    line = Line()
    before = line.feed(BOTH)
    line.feed(FIRST)
    anew = line.feed(ANEW)
    assert anew.epoch == 0
    assert tokens(anew) == tokens(before)
    assert first_tokens(anew) == first_tokens(before)
    again = line.feed(FIRST)
    assert (again.epoch, tokens(again)) == (0, tokens(before))


def test_a_restart_of_all_forgets_the_vanished() -> None:
    line = Line()
    line.feed(BOTH)
    line.feed(FIRST)
    fresh = re.sub(r"(\{[^}]*engine=\"0\"[^}]*\}) [0-9.e+]+", r"\1 0.0", FIRST)
    snapshot = line.feed(fresh)
    assert snapshot.epoch == 1
    assert tokens(snapshot) == 0
    assert line.feed(fresh).epoch == 1


def test_a_restart_with_fewer_ranks_is_one_restart() -> None:
    line = Line()
    before = line.feed(BOTH)
    fresh = re.sub(r"(\{[^}]*engine=\"0\"[^}]*\}) [0-9.e+]+", r"\1 0.0", FIRST)
    snapshot = line.feed(fresh)
    assert (snapshot.epoch, tokens(snapshot)) == (1, 0.0)
    assert tokens(before) > 0
    assert line.feed(fresh).epoch == 1


@pytest.mark.parametrize("gauge", ["requests_running", "requests_waiting"])
def test_gauges_of_a_vanished_rank_are_gone(gauge: str) -> None:
    line = Line()
    busy = re.sub(r"^(vllm:num_requests_(?:running|waiting)\{[^}]*\}) .*$", r"\1 3.0", BOTH, flags=re.M)
    alone = re.sub(r"^(vllm:num_requests_(?:running|waiting)\{[^}]*\}) .*$", r"\1 3.0", FIRST, flags=re.M)
    assert line.feed(busy).data.get(gauge) == 6
    assert line.feed(alone).data.get(gauge) == 3
