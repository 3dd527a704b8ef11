"""Formulas as data: complete, in order, made of what exists, and each with a page that says so."""

from __future__ import annotations

import re
from functools import reduce
from pathlib import Path

import pytest

from sidecar.config import Config, Target
from sidecar.schema import SIGNALS, Kind, Status
from sidecar.schema.derived import DERIVED
from sidecar.signals import FORMULAS
from sidecar.signals.formula import Formula, Way, choose, provenance

PAGES = Path(__file__).parents[2] / "docs" / "signals"
HEADINGS = ["## Formula", "## Inputs", "## When it lies", "## What to do"]
NAME = re.compile(r"\binference_([a-z0-9_]+)")


def config_has(key: str) -> bool:
    """Whether a dotted key is one that a user may write."""
    root, _, rest = key.partition(".")
    start: object = Target() if root == "targets" else getattr(Config(), root, None)
    return reduce(lambda section, name: getattr(section, name, section), rest.split("."), start) is not start


def test_each_derived_signal_has_one_formula() -> None:
    assert sorted(formula.signal for formula in FORMULAS) == sorted(signal.name for signal in DERIVED)


def test_inputs_exist_and_come_before_what_is_made_of_them() -> None:
    derived = {signal.name for signal in DERIVED}
    made: set[str] = set()
    for formula in FORMULAS:
        for way in formula.ways:
            for need in way.needs:
                assert need in SIGNALS or config_has(need), need
                assert need not in derived or need in made, f"{formula.signal} comes before {need}"
        made.add(formula.signal)


def test_the_check_of_config_keys_can_fail() -> None:
    assert config_has("cost.gpu_hour_price") and config_has("targets.capacity.gpus")
    assert not config_has("cost.price") and not config_has("nothing.at_all")


@pytest.mark.parametrize("formula", FORMULAS, ids=lambda formula: formula.signal)
def test_each_has_a_page_that_names_its_inputs(formula: Formula) -> None:
    page = (PAGES / f"{formula.signal}.md").read_text()
    assert page.startswith(f"# inference_{formula.signal}\n")
    assert re.findall(r"^## .*$", page, re.MULTILINE) == HEADINGS
    inputs = page.split("## Inputs")[1].split("## When")[0]
    for way in formula.ways:
        for need in way.needs:
            name = SIGNALS[need].family if need in SIGNALS else need
            assert name in inputs, f"{formula.signal}: the page doesn't name {name} among its inputs"


def test_pages_are_of_signals_that_exist_and_name_only_such() -> None:
    pages = {path.stem: path.read_text() for path in PAGES.glob("*.md")}
    assert set(pages) == {formula.signal for formula in FORMULAS} | {"README", "probe"}
    for stem, page in pages.items():
        for name in NAME.findall(page):
            assert name in SIGNALS, f"{stem}.md names inference_{name}"
        for link in re.findall(r"\]\(([^)]+\.md)\)", page):
            assert (PAGES / link).exists(), link
    assert all(f"({stem}.md)" in pages["README"] for stem in pages if stem != "README")


def test_schema_says_help_unit_and_how_it_adds_up() -> None:
    for signal in DERIVED:
        assert signal.help.endswith(".")
        if signal.kind is Kind.COUNTER:
            assert signal.agg == "sum"


def test_the_best_way_is_taken_and_a_derived_signal_can_be_an_input() -> None:
    formulas = (
        Formula("x", (Way(("a", "b"), "both"), Way(("a",), "one"))),
        Formula("y", (Way(("x", "c"), "of x"),)),
    )
    assert {name: way.source for name, way in choose(formulas, {"a", "b"}).items()} == {"x": "both"}
    assert {name: way.source for name, way in choose(formulas, {"a", "c"}).items()} == {
        "x": "one",
        "y": "of x",
    }
    assert choose(formulas, {"b", "c"}) == {}
    missing = provenance(formulas[0], None)
    assert missing.status is Status.NOT_EXPOSED and missing.note == "needs a and b or a"
