"""Rates, lengths, and that a seed is a traffic."""

from __future__ import annotations

from itertools import islice
from random import Random
from statistics import median

import pytest

from sidecar.simulator.traffic import (
    Bursts,
    Daily,
    Lengths,
    Rate,
    Shape,
    Steady,
    Steps,
    Traffic,
    calm_overload_calm,
)


@pytest.mark.parametrize(
    ("rate", "window", "mean"),
    [
        (Steady(5.0), (0, 400), 5.0),
        (Steps(((0, 2), (100, 2), (100, 10), (400, 10))), (100, 400), 10.0),
        (Steps(((0, 0), (400, 10))), (0, 400), 5.0),
        (Bursts(base=1, peak=21, every=40, seconds=4), (0, 400), 3.0),
        (Daily(low=2, peak=12, period=400), (0, 400), 7.0),
    ],
)
def test_arrivals_keep_to_the_rate(rate: Rate, window: tuple[int, int], mean: float) -> None:
    start, end = window
    times = [arrival.seconds for arrival in Traffic(rate, seed=9, until=400.0).arrivals()]
    assert times == sorted(times)
    assert times[-1] < 400
    inside = sum(start <= time < end for time in times)
    assert inside / (end - start) == pytest.approx(mean, rel=0.12)


def test_a_rate_never_exceeds_its_peak() -> None:
    for rate in (
        calm_overload_calm(60, 2, 20),
        Daily(1, 5, 60),
        Bursts(1, 9, 20, 2),
        Steps(((5, 3), (10, 4))),
    ):
        assert max(rate.at(second / 10) for second in range(1200)) <= rate.peak


def test_the_show_goes_up_and_comes_back() -> None:
    show = calm_overload_calm(100, 2, 20)
    assert [show.at(second) for second in (0, 10, 25, 40, 60, 99, 500)] == [2, 2, 11, 20, 2, 2, 2]


def test_lengths_are_cut_and_spread() -> None:
    random = Random(2)
    drawn = [Lengths(100, 0.8, low=10, high=900).draw(random) for _ in range(3000)]
    assert min(drawn) >= 10 and max(drawn) <= 900
    assert median(drawn) == pytest.approx(100, rel=0.08)
    assert {Lengths(42).draw(random) for _ in range(5)} == {42}


def test_shares_of_shared_prefixes_and_of_impatient_clients() -> None:
    shape = Shape(prefixed=0.5, prefixes=3, prefix_tokens=512, impatient=0.25, patience=9.0)
    arrivals = list(islice(Traffic(Steady(1), shape, 1).arrivals(), 2000))
    prefixed = [one for one in arrivals if one.request.prefix_key is not None]
    assert len(prefixed) / 2000 == pytest.approx(0.5, abs=0.05)
    assert {one.request.prefix_key for one in prefixed} == {0, 1, 2}
    assert min(one.request.prompt_tokens for one in prefixed) > 512
    assert sum(one.patience == 9.0 for one in arrivals) / 2000 == pytest.approx(0.25, abs=0.05)


def test_requests_change_their_shape() -> None:
    long = Shape(prompt=Lengths(3000), output=Lengths(10))
    traffic = Traffic(
        Steady(5.0), Shape(prompt=Lengths(50)), 3, until=60, changes=((20, long), (40, Shape()))
    )
    lengths = [(arrival.seconds, arrival.request.prompt_tokens) for arrival in traffic.arrivals()]
    assert {tokens for second, tokens in lengths if second < 20} == {50}
    assert {tokens for second, tokens in lengths if 20 <= second < 40} == {3000}
    assert len({tokens for second, tokens in lengths if second >= 40}) > 20


def test_no_rate_is_no_arrival() -> None:
    assert list(Traffic(Steady(0.0)).arrivals()) == []
