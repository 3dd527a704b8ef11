"""What is derived goes on in another way while an input can't be used, and counts nothing twice afterwards."""

from __future__ import annotations

import re

import pytest

from sidecar.runtimes.adapter import Answer
from sidecar.snapshot import Snapshot
from tests.pipeline.worlds import VLLM, Address, Process, value

COMPUTE = "compute_seconds_total"
WORK = "request_inference_time_seconds"


def running(answer: Answer, requests: int) -> Answer:
    line = rb"^(vllm:num_requests_running\{.*) \S+$"
    return Answer(200, re.sub(line, rb"\1 %d" % requests, answer.body, flags=re.MULTILINE))


def source(snapshot: Snapshot) -> str:
    return next(one.source for one in snapshot.provenance if one.signal == COMPUTE)


def work(snapshot: Snapshot) -> float:
    (one,) = snapshot.data.layout.by_signal[WORK]
    return snapshot.data.values[one.sum_index]


@pytest.mark.parametrize("lost", [1, 5])
def test_seconds_of_work_are_counted_once(lost: int) -> None:
    address, process = Address(), Process(VLLM)
    pages = [process.page(10 + tick) for tick in range(20)]
    seen = [address.read(running(page, -7 if 8 <= tick < 8 + lost else 4)) for tick, page in enumerate(pages)]
    assert len({source(one) for one in seen[:8]}) == 1
    assert source(seen[8]) != source(seen[7])
    assert source(seen[-1]) == source(seen[0])
    counts = [value(one, COMPUTE) for one in seen]
    for tick in range(1, 20):
        grown = counts[tick] - counts[tick - 1]
        counted = 8 <= tick < 8 + lost
        assert grown == pytest.approx(work(seen[tick]) - work(seen[tick - 1]) if counted else 2 * 4.0), tick
