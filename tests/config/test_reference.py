"""`docs/configuration.md` is what the code says. `UPDATE=1 pytest tests/config` writes it anew."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pydantic.fields import FieldInfo

from sidecar.config import LATENCY_SIGNALS, Config, load_bytes
from sidecar.config.reference import EXAMPLE, reference_markdown
from sidecar.config.section import Section, form_of, meaning_of, section_in
from sidecar.schema import SIGNALS

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def fields(section: type[Section], path: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for key, field in section.model_fields.items():
        yield f"{path}{key}", field
        if below := section_in(field.annotation):
            yield from fields(below, f"{path}{key}.")


def test_the_page_is_what_the_code_says() -> None:
    if os.environ.get("UPDATE"):
        PAGE.write_text(reference_markdown())
    assert PAGE.read_text() == reference_markdown()


def test_each_key_has_a_meaning_and_a_form() -> None:
    for key, field in fields(Config):
        assert meaning_of(field).endswith("."), key
        assert form_of(field) or section_in(field.annotation) or key == "mappings", key


def test_the_example_can_be_used() -> None:
    config = load_bytes(EXAMPLE.encode(), "example")
    assert [slo.name for slo in config.slos] == ["ttft", "itl", "availability"]


def test_objectives_judge_signals_of_the_schema() -> None:
    for name in LATENCY_SIGNALS:
        assert f"{name}_seconds" in SIGNALS
