"""Each page of `pages/` alone, cut, and in the middle of a healthy page."""

from __future__ import annotations

import pytest

from sidecar.exposition import PageError, PageReader, peek_families, read_page
from tests.exposition.hazards import OUTCOMES, PAGES, Outcome, agrees, outcome, page

MALFORMED_LABELS = {"36-dup-label", "63-bad-utf8", "72-meta-label"}
HEALTHY = {"before{} gauge": 1.0, "rest_total{r=0} counter": 2.0, "rest_total{r=1} counter": 3.0}


def test_every_page_has_an_outcome() -> None:
    assert {file.stem for file in PAGES.glob("*.txt")} == set(OUTCOMES)


@pytest.mark.parametrize("name", OUTCOMES)
def test_the_stated_outcome(name: str) -> None:
    got = outcome(PageReader(), page(name))
    assert agrees(got, OUTCOMES[name]), got


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_body_whose_end_nobody_vouches_for(name: str) -> None:
    stated = OUTCOMES[name]
    got = outcome(PageReader(), page(name), whole=False)
    if stated.cut:
        assert got.failure == "parse_error"
    else:
        assert agrees(got, stated), got


@pytest.mark.parametrize("name", OUTCOMES)
def test_inside_a_healthy_page_it_costs_nothing_else(name: str) -> None:
    """What comes before and after stays. Only a line whose name can't be told costs the family above it."""
    body = (
        b"# TYPE before gauge\nbefore 1\n# TYPE above gauge\nabove 7\n"
        + page(name).rstrip(b"\n")
        + b'\n# TYPE rest_total counter\nrest_total{r="0"} 2\nrest_total{r="1"} 3\n'
    )
    stated, got = OUTCOMES[name], outcome(PageReader(), body)
    assert HEALTHY.items() <= got.samples.items()
    assert got.failure == ""
    if not stated.failure and name != "62-bom":  # in the middle, its mark is a malformed name
        assert stated.lost.keys() == got.lost.keys()
        assert got.samples["above{} gauge"] == 7
        assert len(got.samples) == len(stated.samples) + len(HEALTHY) + 1
    else:
        assert got.lost


@pytest.mark.parametrize("name", OUTCOMES)
def test_only_wanted_samples_cost_a_value(name: str) -> None:
    """Values that nobody asks for are left out, labels and all; malformed lines still count."""
    stated = OUTCOMES[name] if name not in MALFORMED_LABELS else Outcome()
    got = outcome(PageReader(lambda sample: False), page(name))
    assert got.samples == {}
    assert got.failure == stated.failure
    assert got.lost.keys() == stated.lost.keys()


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_glance_never_raises(name: str) -> None:
    families = peek_families(page(name))
    assert all(isinstance(family, str) for family in families)


def test_a_line_torn_inside_its_name_costs_the_family_above() -> None:
    """Else one rank would be missing from a sum without anybody noticing."""
    body = b'# TYPE running gauge\nrunning{engine="0"} 3\nrunn\n# TYPE waiting gauge\nwaiting{engine="0"} 1\n'
    got = outcome(PageReader(), body)
    assert got.samples == {"waiting{engine=0} gauge": 1}
    assert got.lost == {"running": "no value"}


def test_a_malformed_bucket_costs_the_histogram() -> None:
    body = b'# TYPE h histogram\nh_bucket{le="1} 5\nh_bucket{le="+Inf"} 9\nh_count 9\n# TYPE g gauge\ng 1\n'
    got = outcome(PageReader(), body)
    assert got.samples == {"g{} gauge": 1}
    assert list(got.lost) == ["h"]


def test_a_malformed_untyped_line_costs_its_own_name() -> None:
    body = b'# TYPE g gauge\ng 1\nu{a="1"} 1\nu{a="2" 2\n'
    got = outcome(PageReader(), body)
    assert got.samples == {"g{} gauge": 1}
    assert list(got.lost) == ["u"]


def test_html_with_lines_that_look_like_samples_is_html() -> None:
    with pytest.raises(PageError) as failure:
        read_page(b"\n  <html><pre>\nretries 3\ntimeout 5\n</pre></html>\n")
    assert failure.value.result == "not_metrics"


def test_a_failure_shows_one_short_printable_line() -> None:
    with pytest.raises(PageError) as failure:
        read_page(b"\x1b[31mPOST \xff\n" * 9000)
    assert failure.value.detail.isprintable()
    assert len(failure.value.detail) < 120


def test_more_labels_than_allowed_cost_the_family() -> None:
    labels = ",".join(f'l{i}="x"' for i in range(65))
    got = outcome(PageReader(), f"# TYPE g gauge\ng{{{labels}}} 1\n# TYPE k gauge\nk 2\n".encode())
    assert got.samples == {"k{} gauge": 2}
    assert got.lost == {"g": "more than 64 labels"}
