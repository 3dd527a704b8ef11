"""Each page of `pages/` again, read by a reader that knows another state of it: warm is the same as cold."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sidecar.exposition import PageReader
from tests.exposition.hazards import OUTCOMES, agrees, numbers, outcome, page

SAMPLE = b'x{a="1"} 1\nx{a="2"} 2\n# TYPE y counter\ny_total 3\n'


def mutations(body: bytes) -> Iterator[bytes]:
    """Neighbours of a page: what the next scrape may look like."""
    lines = body.split(b"\n")
    if len(body) > 2000:
        return
    yield b"\n".join(reversed(lines))
    yield body + SAMPLE
    yield SAMPLE + body
    yield b"<html>\n" + body
    yield body.replace(b"gauge", b"counter").replace(b"histogram", b"summary")
    for i, line in enumerate(lines):
        others = (lines[:i], lines[i + 1 :])
        series, _, value = line.rpartition(b" ")
        for instead in (
            None,  # it vanishes
            series,  # it loses its value: torn
            line + b"1",
            line + b" 1",
            line[:-2],
            series + b" 1_0",
            series + b" 7.5",
            series + b" NaN",
            series + b"  " + value,
            line + b"\r",
            line + b' # {a="b"} 1',
        ):
            middle = [] if instead is None else [instead]
            yield b"\n".join([*others[0], *middle, *others[1]])


@pytest.mark.parametrize("name", OUTCOMES)
def test_read_again(name: str) -> None:
    reader = PageReader()
    for _ in range(3):
        assert agrees(outcome(reader, page(name)), OUTCOMES[name])


@pytest.mark.parametrize("name", OUTCOMES)
def test_through_every_neighbour_and_back(name: str) -> None:
    """Lines move, vanish, turn malformed, are mended; TYPE changes: no state of the past shows through."""
    reader = PageReader()
    outcome(reader, page(name))
    for body in mutations(page(name)):
        got, cold = outcome(reader, body), outcome(PageReader(), body)
        assert (got.failure, got.lost) == (cold.failure, cold.lost), body
        assert numbers(got.samples) == numbers(cold.samples), body
        assert agrees(outcome(reader, page(name)), OUTCOMES[name]), body


BASE = b'# TYPE q gauge\nq{e="0"} 1\nq{e="1"} 2\n# TYPE c_total counter\nc_total 5\n'
NUMBERS = {"q{e=0} gauge": 1.0, "q{e=1} gauge": 2.0, "c_total{} counter": 5.0}


@pytest.mark.parametrize(
    ("step", "samples", "lost"),
    [
        pytest.param(
            BASE.replace(b" 1\n", b" 9\n"), NUMBERS | {"q{e=0} gauge": 9.0}, set(), id="a value moves"
        ),
        pytest.param(b"\n".join(sorted(BASE.split(b"\n"))), NUMBERS, set(), id="lines move"),
        pytest.param(
            BASE.replace(b'q{e="1"} 2\n', b""),
            {"q{e=0} gauge": 1.0, "c_total{} counter": 5.0},
            set(),
            id="a line vanishes",
        ),
        pytest.param(
            BASE.replace(b" 2\n", b" 2,5\n"), {"c_total{} counter": 5.0}, {"q"}, id="a value turns malformed"
        ),
        pytest.param(
            BASE.replace(b'q{e="1"} 2\n', b'q{e="1"}\n'),
            {"c_total{} counter": 5.0},
            {"q"},
            id="a value is gone",
        ),
        pytest.param(
            BASE.replace(b"q gauge", b"q counter"),
            {"q{e=0} counter": 1.0, "q{e=1} counter": 2.0, "c_total{} counter": 5.0},
            set(),
            id="TYPE changes",
        ),
        pytest.param(
            BASE.replace(b"q gauge", b"q gauge1"),
            {"c_total{} counter": 5.0},
            {"q"},
            id="TYPE turns malformed",
        ),
        pytest.param(
            BASE.replace(b"# TYPE q gauge\n", b""),
            {"q{e=0} untyped": 1.0, "q{e=1} untyped": 2.0, "c_total{} counter": 5.0},
            set(),
            id="TYPE vanishes",
        ),
        pytest.param(
            BASE + b'q{e="1"} 8\n',
            NUMBERS,
            set(),
            id="a duplicate comes",
        ),
    ],
)
def test_one_step_and_back(step: bytes, samples: dict[str, float], lost: set[str]) -> None:
    reader = PageReader()
    for body, values, families in (
        (BASE, NUMBERS, set()),
        (step, samples, lost),
        (BASE, NUMBERS, set()),
    ) * 2:
        got = outcome(reader, body)
        assert got.samples == values
        assert set(got.lost) == families


def test_a_page_that_fails_half_way_leaves_nothing_behind() -> None:
    """Values of its first lines were copied before it failed: the former page gives the former numbers."""
    reader = PageReader()
    before = outcome(reader, BASE)
    half = BASE.replace(b" 1\n", b" 100\n").replace(b"c_total 5\n", b"c_total\n")
    assert set(outcome(reader, half).lost) == {"c_total"}
    assert outcome(reader, half[:-4], whole=False).failure == "parse_error"
    assert outcome(reader, b"Internal Server Error\n").failure == "not_metrics"
    assert outcome(reader, BASE) == before


def test_the_shape_is_kept_as_long_as_the_series_are_the_same() -> None:
    reader = PageReader()
    first = reader.read(BASE).shape
    assert reader.read(BASE.replace(b" 1\n", b" 4\n")).shape is first
    assert reader.read(b"\n".join(reversed(BASE.split(b"\n")))).shape is first
    assert reader.read(BASE + b"k 1\n").shape is not first
