"""A sidecar's page: which lines count, and what each is."""

from __future__ import annotations

import pytest

from sidecar.exposition import PageError, read_page
from sidecar.fleet.page import WANTED as NAMES
from sidecar.fleet.page import SidecarPage, wanted_lines
from sidecar.schema import PREFIX
from tests.fleet.world import busy, page, simulated_page

WANTED = {PREFIX + name for name in NAMES}


def samples(body: bytes) -> dict[tuple[str, str], float]:
    return {(one.name, str(sorted(one.labels.items()))): one.value for one in read_page(body).samples}


@pytest.mark.parametrize("body", [busy(), simulated_page()], ids=["chosen", "simulated"])
def test_cutting_a_page_loses_no_wanted_sample_and_keeps_no_other(body: bytes) -> None:
    whole = {key: value for key, value in samples(body).items() if key[0] in WANTED}
    cut = samples(wanted_lines(body))
    assert cut == whole
    assert len(whole) > 10
    assert len(wanted_lines(body)) < len(body) / 3


def test_names_that_begin_alike_are_not_taken_for_each_other() -> None:
    body = page({"replica_demand": 1.0, "requests_running": 2.0}, request_slots=64.0)
    assert b"inference_request_slots" in body
    assert b"request_slots" not in wanted_lines(body)


def test_a_label_value_that_holds_a_line_breaks_nothing() -> None:
    body = page({"replica_demand": 1.0}, model='x\ninference_replica_demand{target="y"} 99')
    sidecar = SidecarPage()
    sidecar.read(body)
    assert [sidecar.values[place] for place, _, _ in sidecar.plan.summed] == [1.0]


def test_the_plan_is_kept_while_the_series_are_the_same() -> None:
    sidecar = SidecarPage()
    sidecar.read(busy(1.5))
    plan = sidecar.plan
    sidecar.read(busy(2.5))
    assert sidecar.plan is plan
    demand = {key[0]: sidecar.values[place] for place, _, key in plan.summed}
    assert demand["replica_demand"] == 2.5


def test_rows_of_ranks_are_not_added_to_the_row_of_all() -> None:
    sidecar = SidecarPage()
    sidecar.read(
        page({"requests_running": 8.0, "requests_running__rank__0": 5.0, "requests_running__rank__1": 3.0})
    )
    assert [sidecar.values[place] for place, _, _ in sidecar.plan.summed] == [8.0]


@pytest.mark.parametrize(
    ("body", "result"),
    [
        (b"vllm:num_requests_running 1\n", "not_metrics"),
        (b"<html>", "not_metrics"),
        (b"", "not_metrics"),
        (busy()[:-20], "parse_error"),
    ],
)
def test_what_is_no_whole_page_of_a_sidecar_is_refused(body: bytes, result: str) -> None:
    with pytest.raises(PageError) as refused:
        SidecarPage().read(body)
    assert refused.value.result == result
