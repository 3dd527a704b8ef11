"""What KEDA adds: waking, cooling down, falling back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.autoscale.hpa import AverageValue, Hpa, Pods, Value
from sidecar.autoscale.keda import Fallback, Keda, ScaledObject, Trigger

DEMAND = Trigger("replica_demand", 1.0)
ZERO = ScaledObject(
    (replace(DEMAND, activation=0.5),),
    minimum=0,
    cooldown=300,
    initial_cooldown=600,
    fallback=Fallback(3, 2, "currentReplicasIfHigher"),
)


def test_more_than_the_activation_wakes_and_as_much_does_not() -> None:
    keda = Keda(ZERO)
    assert keda.poll(0, 0, [0.5]) == 0
    assert keda.poll(30, 0, [0.51]) == 1
    assert Keda(replace(ZERO, minimum=2)).poll(0, 0, [0.51]) == 2


def test_it_sleeps_when_the_cooldown_is_over() -> None:
    keda = Keda(ZERO)
    keda.poll(0, 1, [1.0])
    assert keda.poll(300, 3, [0.0]) == 3
    assert keda.poll(301, 3, [0.0]) == 0


def test_it_does_not_sleep_before_the_initial_cooldown() -> None:
    keda = Keda(ZERO)
    assert keda.poll(599, 1, [0.0]) == 1
    assert keda.poll(600, 1, [0.0]) == 1
    assert keda.poll(601, 1, [0.0]) == 0


def test_an_object_with_a_minimum_never_sleeps() -> None:
    assert Keda(replace(ZERO, minimum=1)).poll(10_000, 1, [0.0]) == 1


def test_blind_does_not_put_to_sleep() -> None:
    """Case 1 and 6: an error is no zero, as long as the fallback has a replica."""
    assert Keda(ZERO).poll(10_000, 5, [None]) == 5
    assert Keda(replace(ZERO, fallback=None)).poll(10_000, 5, [None]) == 5


def test_the_operator_holds_the_size_and_leaves_the_fallback_to_the_metrics_server() -> None:
    assert Keda(replace(ZERO, fallback=Fallback(3, 8))).poll(10_000, 5, [None]) == 5
    assert Keda(replace(ZERO, fallback=Fallback(3, 8))).poll(10_000, 0, [None]) == 0


def test_who_is_seen_active_beside_a_failing_trigger_does_not_begin_the_cooldown_anew() -> None:
    keda = Keda(replace(ZERO, triggers=(DEMAND, DEMAND)))
    keda.poll(0, 1, [1.0, 0.0])
    keda.poll(200, 1, [1.0, None])
    assert keda.poll(301, 1, [0.0, 0.0]) == 0


def test_a_fallback_of_zero_puts_to_sleep_on_an_error() -> None:
    """The hazard that no shipped object has."""
    assert Keda(replace(ZERO, fallback=Fallback(3, 0))).poll(10_000, 5, [None]) == 0


def test_any_active_trigger_is_enough() -> None:
    keda = Keda(replace(ZERO, triggers=(DEMAND, DEMAND)))
    assert keda.poll(0, 0, [None, 1.0]) == 1


@pytest.mark.parametrize(
    ("behavior", "replicas", "size"),
    [
        ("static", 5, 2),
        ("currentReplicas", 5, 5),
        ("currentReplicasIfHigher", 5, 5),
        ("currentReplicasIfHigher", 1, 2),
        ("currentReplicasIfLower", 5, 2),
    ],
)
def test_the_fallback_begins_after_its_threshold(behavior: str, replicas: int, size: int) -> None:
    keda = Keda(replace(ZERO, fallback=Fallback(3, 2, behavior)))  # type: ignore[arg-type]
    assert [keda.metrics([None], replicas, replicas) for _ in range(3)] == [[None]] * 3
    assert keda.metrics([None], replicas, replicas) == [AverageValue(size, 1.0)]
    assert keda.fell_back
    assert keda.metrics([1.5], replicas, replicas) == [AverageValue(1.5, 1.0)]
    assert keda.metrics([None], replicas, replicas) == [None], "a success begins the count anew"


def test_a_fallback_of_a_value_is_over_the_ready_pods() -> None:
    keda = Keda(replace(ZERO, triggers=(Trigger("x", 1.5, metric_type="Value"),), fallback=Fallback(3, 4)))
    assert [keda.metrics([None], 2, 2) for _ in range(3)] == [[None]] * 3
    assert keda.metrics([None], 2, 2) == [Value(3.0, 1.5)]
    assert Value(3.0, 1.5).replicas(2, Pods(2, 2), 0.1) == 4
    assert keda.metrics([None], 2, 0) == [None], "none is ready"


def test_the_sum_with_average_value_grows_where_the_average_sticks() -> None:
    """Case 10: avg() with AverageValue gives two replicas whatever their number."""
    hpa = Hpa(1, 20)
    load = 0.9
    assert AverageValue(load, 0.7).replicas(2, Pods(2, 2), 0.1) == 2
    assert hpa.sync(0, 4, Pods(4, 4), [AverageValue(4 * load, 0.7)]) == 6
