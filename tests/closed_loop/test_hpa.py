"""The HPA's algorithm, case by case as its documentation and source have them."""

from __future__ import annotations

import pytest

from sidecar.autoscale.hpa import (
    AverageValue,
    Behaviour,
    Hpa,
    Limit,
    Metric,
    NoMetricError,
    PerPod,
    Pods,
    Rules,
    Value,
)

FREE = Behaviour(Rules(0, (Limit("Percent", 1000, 15),)), Rules(0, (Limit("Percent", 100, 15),)))


def hpa(behaviour: Behaviour | None = FREE, minimum: int = 1, maximum: int = 20) -> Hpa:
    return Hpa(minimum, maximum, behaviour)


@pytest.mark.parametrize(
    ("total", "status", "size"),
    [
        (5.0, 3, 5),
        (4.001, 3, 5),  # rounded up
        (3.3, 3, 3),  # within 10 %
        (3.301, 3, 4),
        (2.7, 3, 3),
        (2.69, 3, 3),
        (0.0, 3, 0),
        (2.0, 0, 2),
    ],
)
def test_average_value_shares_the_total_out(total: float, status: int, size: int) -> None:
    assert AverageValue(total, 1.0).replicas(status, Pods(status, status), 0.1) == size


def test_average_value_compares_with_all_pods_not_with_ready_ones() -> None:
    """Three of four are starting: 4 of 4 is within the tolerance, there is no more to do."""
    assert AverageValue(4.2, 1.0).replicas(4, Pods(4, 1), 0.1) == 4


def test_value_multiplies_ready_pods() -> None:
    """The hazard of Value: with no pod ready the product is 0."""
    assert Value(2.0, 1.0).replicas(4, Pods(4, 4), 0.1) == 8
    assert Value(2.0, 1.0).replicas(4, Pods(4, 0), 0.1) == 0
    assert Value(2.5, 1.0).replicas(0, Pods(0, 0), 0.1) == 3


def test_value_needs_pods_to_multiply() -> None:
    assert Value(1.05, 1.0).replicas(4, Pods(0, 0), 0.1) == 4
    with pytest.raises(NoMetricError):
        Value(2.0, 1.0).replicas(4, Pods(0, 0), 0.1)


@pytest.mark.parametrize(
    ("values", "missing", "unready", "size"),
    [
        ([0.9, 0.9], 0, 0, 4),  # 1.8 times two
        ([0.5, 0.5], 0, 0, 2),  # within 10 %
        ([0.3, 0.3, 0.3], 0, 0, 2),  # 0.6 times three
        ([0.9, 0.9], 0, 2, 4),  # with two that count as 0 it is 0.9 of the target: nothing is done
        ([1.5, 1.5], 0, 2, 6),  # 1.5 times four
        ([1.5, 1.5], 1, 0, 6),  # the missing one counts as 0: 2 times three
        ([0.2, 0.2], 2, 0, 3),  # the missing ones count as the target: 0.7 times four
        ([0.2, 0.2], 0, 2, 1),  # on the way down who isn't ready isn't asked: 0.4 times two
    ],
)
def test_pods_that_are_not_ready_damp_the_change(
    values: list[float], missing: int, unready: int, size: int
) -> None:
    pods = {str(place): value for place, value in enumerate(values)}
    current = len(values) + missing + unready
    metric = PerPod(pods, 0.5, missing, unready)
    assert metric.replicas(current, Pods(current, len(values)), 0.1) == size


def test_no_pod_no_metric() -> None:
    with pytest.raises(NoMetricError):
        PerPod({}, 0.5, unready=2).replicas(2, Pods(2, 0), 0.1)


def test_the_largest_proposal_counts() -> None:
    assert hpa().sync(0, 3, Pods(3, 3), [AverageValue(5, 1), AverageValue(8, 1)]) == 8


@pytest.mark.parametrize(("total", "size"), [(8.0, 8), (1.0, 3)])
def test_one_metric_that_fails_lets_it_grow_and_never_shrink(total: float, size: int) -> None:
    assert hpa().sync(0, 3, Pods(3, 3), [None, AverageValue(total, 1)]) == size


def test_without_any_metric_nothing_is_done_and_only_the_first_size_remembered() -> None:
    one = hpa()
    assert one.sync(0, 7, Pods(7, 7), [None]) == 7
    assert one.sync(15, 9, Pods(9, 9), [None]) == 9
    assert one.recommendations == [(0, 7)]


def test_bounds() -> None:
    one = hpa(minimum=2, maximum=6)
    assert one.sync(0, 4, Pods(4, 4), [AverageValue(50, 1)]) == 6
    assert one.sync(15, 6, Pods(6, 6), [AverageValue(0, 1)]) == 2
    assert one.sync(30, 9, Pods(9, 9), [AverageValue(9, 1)]) == 6
    assert one.sync(45, 1, Pods(1, 1), [AverageValue(1, 1)]) == 2
    assert one.sync(60, 0, Pods(0, 0), [AverageValue(9, 1)]) == 0, "0 is left alone"


def play(one: Hpa, totals: list[float | None], current: int) -> list[int]:
    """Sizes over syncs of 15 s, each pod ready at once."""
    sizes = []
    for place, total in enumerate(totals):
        metrics: list[Metric | None] = [None if total is None else AverageValue(total, 1)]
        current = one.sync(15.0 * place, current, Pods(current, current), metrics)
        sizes.append(current)
    return sizes


def test_a_policy_of_pods_bounds_growth_per_period() -> None:
    rules = Behaviour(Rules(0, (Limit("Pods", 2, 60),)), FREE.down)
    assert play(hpa(rules), [10.0] * 9, 1) == [3, 3, 3, 3, 5, 5, 5, 5, 7]


def test_max_takes_the_larger_policy_and_min_the_smaller() -> None:
    limits = (Limit("Pods", 4, 15), Limit("Percent", 100, 15))
    assert play(hpa(Behaviour(Rules(0, limits), FREE.down)), [20.0] * 3, 1) == [5, 10, 20]
    assert play(hpa(Behaviour(Rules(0, limits, "Min"), FREE.down)), [20.0] * 3, 1) == [2, 4, 8]
    assert play(hpa(Behaviour(Rules(0, limits, "Disabled"), FREE.down)), [20.0] * 3, 1) == [1, 1, 1]


def test_scale_in_waits_for_the_highest_recommendation_of_its_window() -> None:
    rules = Behaviour(FREE.up, Rules(60, (Limit("Percent", 100, 15),)))
    assert play(hpa(rules), [8.0, 4.0, 6.0, 4.0, 4.0, 4.0, 4.0], 8) == [8, 8, 8, 8, 6, 6, 4]


def test_scale_out_waits_for_the_lowest_recommendation_of_its_window() -> None:
    rules = Behaviour(Rules(30, FREE.up.limits), FREE.down)
    assert play(hpa(rules), [2.0, 8.0, 8.0, 8.0], 2) == [2, 2, 8, 8]


def test_scale_in_goes_down_by_its_policy() -> None:
    rules = Behaviour(FREE.up, Rules(0, (Limit("Pods", 1, 60),)))
    assert play(hpa(rules), [1.0] * 9, 5) == [4, 4, 4, 4, 3, 3, 3, 3, 2]


def test_without_behaviour_it_doubles_or_goes_to_four() -> None:
    assert play(hpa(None), [50.0] * 4, 1) == [4, 8, 16, 20]


def test_blindness_between_holds_and_the_window_goes_on() -> None:
    rules = Behaviour(FREE.up, Rules(45, (Limit("Percent", 100, 15),)))
    assert play(hpa(rules), [8.0, None, None, 2.0, 2.0, 2.0], 8) == [8, 8, 8, 2, 2, 2]
