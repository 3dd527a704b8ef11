"""Laws that hold for every page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from sidecar.exposition import PageError, PageReader, peek_families, read_page
from tests.exposition.hazards import PAGES, Outcome, numbers, outcome
from tests.exposition.strategies import ANYTHING, changed, pages, text

EXAMPLES = settings(
    max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
HAZARDS = sorted(file for file in PAGES.glob("*.txt") if file.stat().st_size < 2000)
SHORT = [file.read_bytes() for file in HAZARDS]
REAL = Path(__file__).parents[1] / "runtimes" / "vllm" / "pages"
MUTATED = st.sampled_from(SHORT).flatmap(changed)


def understood(body: bytes, *, whole: bool = True) -> bool:
    try:
        read_page(body, whole=whole)
    except PageError as error:
        assert error.result in ("parse_error", "not_metrics")
        return False
    return True


def facts(got: Outcome) -> tuple[str, str, tuple[str, ...]]:
    return got.failure, numbers(got.samples), tuple(sorted(got.lost))


@EXAMPLES
@given(ANYTHING, st.booleans())
def test_no_bytes_raise_anything_but_a_page_error(body: bytes, whole: bool) -> None:
    understood(body, whole=whole)
    peek_families(body)


@EXAMPLES
@given(MUTATED, st.booleans())
def test_no_changed_page_raises_anything_but_a_page_error(body: bytes, whole: bool) -> None:
    understood(body, whole=whole)
    peek_families(body)


@EXAMPLES
@given(pages())
def test_a_well_formed_page_reads_as_by_prometheus_client(lines: list[str]) -> None:
    """By sample name and labels; the library keeps duplicates and drops nothing, we keep the first."""
    body = text(lines)
    expected: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            key = (sample.name, tuple(sorted((k, v) for k, v in sample.labels.items() if v)))
            expected.setdefault(key, float(sample.value))
    page = read_page(body)
    got = {(one.name, tuple(sorted(one.labels.items()))): one.value for one in page.samples}
    assert repr(sorted(got.items())) == repr(sorted(expected.items()))
    assert page.bad_lines == ()


@EXAMPLES
@given(pages(), st.randoms(use_true_random=False))
def test_the_order_of_lines_does_not_matter(lines: list[str], random: Random) -> None:
    """Of two equal series the first counts: so each is kept once here."""
    once = list({line.rpartition(" ")[0]: line for line in lines}.values())
    moved = random.sample(once, len(once))
    plain = outcome(PageReader(), text(once))
    if any(plain.samples) and len(plain.samples) == sum(not line.startswith("#") for line in once):
        assert facts(outcome(PageReader(), text(moved))) == facts(plain)


@EXAMPLES
@given(st.data(), st.sampled_from([None, lambda name: len(name) % 2 == 0]))
def test_a_warm_reader_reads_as_a_cold_one(data: st.DataObject, wanted: Callable[[str], bool] | None) -> None:
    """Whatever pages came before, and whatever became of them."""
    first = data.draw(st.one_of(st.sampled_from(SHORT), pages().map(text), ANYTHING))
    reader = PageReader(wanted)
    body = first
    for _ in range(data.draw(st.integers(1, 5))):
        assert facts(outcome(reader, body)) == facts(outcome(PageReader(wanted), body))
        body = data.draw(st.one_of(st.just(first), changed(body), st.sampled_from(SHORT)))


@EXAMPLES
@given(pages(), pages(), st.data())
def test_a_malformed_line_costs_no_other_family(
    before: list[str], after: list[str], data: st.DataObject
) -> None:
    bad = data.draw(st.sampled_from(["{", " 1,5", '{a="b} 1', " 1 2 3", " 0x1", '{a="1",a="2"} 1']))
    alone = outcome(PageReader(), text([*before, *after]))
    with_it = outcome(PageReader(), text([*before, "unheard" + bad, *after]))
    if alone.failure == "" and (before or after):
        assert with_it.samples.keys() == alone.samples.keys()
        assert numbers(with_it.samples) == numbers(alone.samples)
        assert set(with_it.lost) == {*alone.lost, "unheard"}


def damaged(body: bytes, random: Random) -> bytes:
    """Bytes flipped, cut or doubled at one place."""
    at, length = random.randrange(len(body)), random.randrange(1, 40)
    piece = random.choice((b"", random.randbytes(length), body[at : at + length] * 2, b"\n", b" "))
    return body[:at] + piece + body[at + length :]


def test_a_fuzz_over_all_hazards_at_once() -> None:
    random = Random(20261130)
    body = b"".join(short for short in SHORT if b"<" not in short)
    reader = PageReader()
    for _ in range(150):
        for step in (damaged(body, random), body):
            assert facts(outcome(reader, step)) == facts(outcome(PageReader(), step))


@pytest.mark.parametrize("name", ["11_s5_after_enginekill", "rust_frontend", "v0.6.6"])
def test_a_fuzz_over_real_pages(name: str) -> None:
    """A warm reader of a real page reads a damaged one as a cold reader does, and the whole one again."""
    random = Random(name)
    body = (REAL / f"{name}.txt").read_bytes()
    whole = facts(outcome(PageReader(), body))
    reader = PageReader()
    for _ in range(15):
        assert facts(outcome(reader, body)) == whole
        hurt = damaged(body, random)
        assert facts(outcome(reader, hurt)) == facts(outcome(PageReader(), hurt))


def test_hostile_lines_cost_linear_time() -> None:
    """Shapes that make a backtracking pattern explode; a hang here is the failure."""
    for piece in (
        b'g{a="' + b"\\" * 60_000,
        b"g{" * 30_000,
        b'g{a="b",' * 8000,
        b" " * 60_000 + b"1",
        b"{" * 60_000,
    ):
        outcome(PageReader(), piece + b"\n" + b"# TYPE k gauge\nk 1\n")
