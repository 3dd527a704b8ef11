"""Rows over time: windows, increases, and what is forgotten."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.history import Table


@given(st.lists(st.floats(0, 1e9), min_size=3, max_size=60), st.data())
def test_the_increase_adds_up_over_adjacent_windows(steps: list[float], data: st.DataObject) -> None:
    table = Table(1, 600.0)
    total = 0.0
    for second, step in enumerate(steps):
        total += step
        table.append(float(second), [total])
    middle = data.draw(st.integers(1, len(steps) - 2))
    end = len(steps) - 1
    late = table.increase(0, table.base(end - middle))
    early = table.columns[0][middle] - table.columns[0][0]
    assert late >= 0
    assert abs(table.increase(0, 0) - early - late) <= 1e-6 * max(1.0, total)


def test_a_window_begins_at_the_newest_row_before_it() -> None:
    table = Table(1, 600.0)
    for second in (0.0, 10.0, 20.0):
        table.append(second, [second])
    assert table.base(10) == 1
    assert table.base(11) == 0
    assert table.base(1000) == 0
    assert table.inside(10) == 2


def test_old_rows_are_forgotten_but_for_the_base_of_the_window() -> None:
    table = Table(2, 10.0)
    for second in range(10_000):
        table.append(float(second), [float(second), 0.0])
    assert len(table) < 200
    assert table.increase(0, table.base(10)) == 10
