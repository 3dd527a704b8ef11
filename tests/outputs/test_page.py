"""A page reads back as what went in, by prometheus_client's parsers, whatever page came before it."""

from __future__ import annotations

import math
import shutil
import subprocess
from array import array
from collections.abc import Iterator
from io import StringIO
from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_fd_to_metric_families as parse_text

from sidecar.outputs.prometheus import Page, render_blocks
from sidecar.outputs.prometheus.text import le
from sidecar.schema import GROUPS, SIGNALS, Kind, Signal
from sidecar.snapshot import Block, LayoutBuilder, Series, block_of

Sample = tuple[str, frozenset[tuple[str, str]], float]

HOSTILE = [
    '"',
    "\\",
    "\n",
    '\\"\n',
    "\\n",
    '{a="b"} 1',
    "a,b",
    "#",
    " ",
    "\t",
    "\r",
    "\x00",
    "é漢🦙",
    "\u2028",
    "\x85",
]
SECONDS = (0.005, 0.01, 0.25, 1.0, 2.5, 10.0, 2560.0)


def samples_of(page: bytes, openmetrics: bool = False) -> list[Sample]:
    text = page.decode()
    families = parse_openmetrics(text) if openmetrics else parse_text(StringIO(text, newline="\n"))
    return [
        (sample.name, frozenset(sample.labels.items()), float(sample.value))
        for family in families
        for sample in family.samples
    ]


def expected(blocks: list[Block]) -> Iterator[Sample]:
    """The samples that blocks hold, spelt out without any of the page's machinery."""
    seen = set()
    for block in blocks:
        for series in block.layout.series:
            key = (series.signal.name, frozenset(pair for pair in series.labels if pair[1]))
            if key not in seen:
                seen.add(key)
                yield from expected_of(series, block)


def expected_of(series: Series, block: Block) -> Iterator[Sample]:
    family, labels = "inference_" + series.signal.name, frozenset(series.labels)
    if series.signal.kind is not Kind.HISTOGRAM:
        if not math.isnan(block.values[series.start]):
            yield family, labels, block.values[series.start]
        return
    count, total = block.values[series.count_index], block.values[series.sum_index]
    if math.isnan(count):
        return
    for index, bound in enumerate(series.bounds, series.start):
        if not math.isnan(block.values[index]):
            yield family + "_bucket", labels | {("le", le(bound))}, block.values[index]
    if not math.isnan(total):
        yield family + "_sum", labels, total
    yield family + "_count", labels, count


label_values = st.one_of(
    st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
)
numbers = st.floats(allow_nan=True, allow_infinity=True)
counts = st.integers(0, 2**60).map(float)


@st.composite
def rows(draw: st.DrawFn) -> tuple[Signal, dict[str, str], tuple[float, ...]]:
    signal = draw(st.sampled_from(list(SIGNALS.values())))
    labels = {
        "target": draw(st.sampled_from(["a", "b"])),
        "runtime": "vllm",
        "model_name": draw(label_values),
        **{name: draw(label_values) for name in signal.labels if name not in ("target", "model_name")},
    }
    bounds: tuple[float, ...] = ()
    if signal.kind is Kind.HISTOGRAM:
        edges = st.lists(st.floats(min_value=0, max_value=1e12), max_size=6, unique=True)
        bounds = tuple(sorted(draw(edges)))
    return signal, labels, bounds


def legal_numbers(draw: st.DrawFn, series: Series) -> list[float]:
    """Numbers that OpenMetrics allows: counters don't fall below 0, buckets are whole and cumulative."""
    if series.signal.kind is Kind.GAUGE:
        return [draw(numbers)]
    if series.signal.kind is Kind.COUNTER:
        return [draw(st.one_of(st.just(nan), st.floats(min_value=0, allow_infinity=True)))]
    if draw(st.booleans()):
        return [nan] * series.width
    steps = draw(st.lists(st.integers(0, 2**40), min_size=len(series.bounds), max_size=len(series.bounds)))
    cumulative = [float(sum(steps[: place + 1])) for place in range(len(steps))]
    return [*cumulative, draw(st.one_of(st.just(nan), st.floats(0, 1e12)))]


@st.composite
def several_blocks(draw: st.DrawFn, times: int = 1) -> list[list[Block]]:
    """The same layouts with `times` sets of numbers."""
    layouts = []
    for _ in range(draw(st.integers(0, 3))):
        builder = LayoutBuilder()
        for signal, labels, bounds in draw(st.lists(rows(), max_size=8)):
            builder.add(signal, labels, bounds)
        layouts.append(builder.build())
    return [
        [
            Block(layout, tuple(value for series in layout.series for value in legal_numbers(draw, series)))
            for layout in layouts
        ]
        for _ in range(times)
    ]


@settings(max_examples=150, deadline=None)
@given(several_blocks(), st.booleans())
def test_parse_after_render_is_the_identity_on_samples(blocks: list[list[Block]], openmetrics: bool) -> None:
    want = list(expected(blocks[0]))
    if openmetrics:
        summed = {(name.removesuffix("_sum"), labels) for name, labels, _ in want if name.endswith("_sum")}
        want = [
            one for one in want if not is_count(one[0]) or (one[0].removesuffix("_count"), one[1]) in summed
        ]
    got = samples_of(render_blocks(blocks[0], openmetrics=openmetrics), openmetrics)
    assert sorted(got, key=repr) == sorted(want, key=repr)


def is_count(name: str) -> bool:
    stem = name.removesuffix("_count").removeprefix("inference_")
    return name.endswith("_count") and SIGNALS[stem].kind is Kind.HISTOGRAM


@settings(max_examples=60, deadline=None)
@given(several_blocks(times=4), st.lists(st.booleans(), min_size=4, max_size=4))
def test_a_page_after_changes_is_the_page_made_afresh(
    publications: list[list[Block]], formats: list[bool]
) -> None:
    page = Page()
    for blocks, openmetrics in zip(publications, formats, strict=True):
        assert page.render(blocks, openmetrics=openmetrics) == render_blocks(blocks, openmetrics)
    assert page.render(publications[0]) == render_blocks(publications[0])


def vllm_like(targets: int, value: float) -> list[Block]:
    blocks = []
    for target in range(targets):
        builder = LayoutBuilder()
        values: list[float] = []
        for signal in SIGNALS.values():
            labels = {"target": f"t{target}", **{name: "x" for name in signal.labels if name != "target"}}
            builder.add(signal, labels, SECONDS)
            values += [value] * (len(SECONDS) + 2 if signal.kind is Kind.HISTOGRAM else 1)
        blocks.append(Block(builder.build(), values))
    return blocks


def test_thousands_of_series_stand_by_family() -> None:
    text = render_blocks(vllm_like(30, 3)).decode()
    types = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert types == [signal.family for signal in SIGNALS.values()]
    order = [line.split("{")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(order) > 5_000
    families = [name for place, name in enumerate(order) if place == 0 or name != order[place - 1]]
    gauges = [name for name in families if SIGNALS.get(name.removeprefix("inference_"))]
    assert len(gauges) == len(set(gauges)), "a family's samples stand together"


def test_only_what_is_there_is_on_the_page() -> None:
    builder = LayoutBuilder()
    builder.add("requests_running", {"target": "a"})
    builder.add("requests_waiting", {"target": "a"})
    builder.add("time_to_first_token_seconds", {"target": "a"}, (0.1, 1))
    layout = builder.build()
    page = Page()
    nothing = Block(layout, (nan,) * layout.size)
    assert page.render([nothing]) == b""
    assert page.render([nothing], openmetrics=True) == b"# EOF\n"
    assert page.render([]) == b""
    full = page.render([Block(layout, (3, 0.5, 1, 2, 4, 9.25))])
    assert full.decode().splitlines() == [
        "# HELP inference_requests_running Requests in the execution batch now.",
        "# TYPE inference_requests_running gauge",
        'inference_requests_running{target="a"} 3',
        "# HELP inference_requests_waiting Requests accepted and not yet executing: the queue depth, deferred"
        " and swapped ones included.",
        "# TYPE inference_requests_waiting gauge",
        'inference_requests_waiting{target="a"} 0.5',
        "# HELP inference_time_to_first_token_seconds Arrival to first output token.",
        "# TYPE inference_time_to_first_token_seconds histogram",
        'inference_time_to_first_token_seconds_bucket{target="a",le="0.1"} 1',
        'inference_time_to_first_token_seconds_bucket{target="a",le="1.0"} 2',
        'inference_time_to_first_token_seconds_bucket{target="a",le="+Inf"} 4',
        'inference_time_to_first_token_seconds_sum{target="a"} 9.25',
        'inference_time_to_first_token_seconds_count{target="a"} 4',
    ]
    without_count = page.render([Block(layout, (3, nan, 1, 2, nan, 9.25))])
    assert without_count.decode().splitlines() == full.decode().splitlines()[:3]
    assert page.render([nothing]) == b""


def test_openmetrics_names_the_counter_family_without_total_and_units_that_end_the_name() -> None:
    blocks = [
        block_of(
            [
                ("requests_total", {"target": "a", "outcome": "success"}, 7),
                ("requests_running", {"target": "a"}, 1),
                ("kv_cache_usage_ratio", {"target": "a"}, 0.25),
                ("runtime_info", {"target": "a", "version": "0.11"}, 1),
            ]
        )
    ]
    assert render_blocks(blocks, openmetrics=True).decode().splitlines() == [
        "# HELP inference_requests_running Requests in the execution batch now.",
        "# TYPE inference_requests_running gauge",
        'inference_requests_running{target="a"} 1',
        "# HELP inference_requests Requests finished, by outcome.",
        "# TYPE inference_requests counter",
        "# UNIT inference_requests requests",
        'inference_requests_total{target="a",outcome="success"} 7',
        "# HELP inference_kv_cache_usage_ratio Share of the KV cache in use, 0 to 1, mean over ranks.",
        "# TYPE inference_kv_cache_usage_ratio gauge",
        "# UNIT inference_kv_cache_usage_ratio ratio",
        'inference_kv_cache_usage_ratio{target="a"} 0.25',
        "# HELP inference_runtime_info What runs.",
        "# TYPE inference_runtime_info gauge",
        'inference_runtime_info{target="a",version="0.11"} 1',
        "# EOF",
    ]


def test_of_the_same_series_in_two_blocks_the_first_counts() -> None:
    refused: list[tuple[str, str]] = []
    page = Page(lambda target, reason: refused.append((target, reason)))
    first = block_of([("requests_running", {"target": "a", "runtime": "vllm"}, 1)])
    second = block_of(
        [
            ("requests_running", {"runtime": "vllm", "model_name": "", "target": "a"}, 2),
            ("requests_running", {"target": "b"}, 3),
        ]
    )
    got = samples_of(page.render([first, second]))
    assert [value for _, _, value in got] == [1, 3]
    assert samples_of(page.render([first, Block(second.layout, (9, 4))]))[1][2] == 4
    assert refused == [("a", "duplicate")], "counted when the layouts change, not at each page"


def test_what_would_cost_a_scraper_the_whole_page_is_refused() -> None:
    refused: list[tuple[str, str]] = []
    page = Page(lambda target, reason: refused.append((target, reason)))
    builder = LayoutBuilder()
    builder.add("requests_running", (("target", "a"), ("x", "1"), ("x", "2")))
    builder.add("requests_running", {"target": "b", "no-name": "1"})
    builder.add("requests_running", {"target": "c", "__name__": "up"})
    builder.add("batch_size", {"target": "d", "le": "1"}, (1,))
    builder.add("requests_running", {"target": "e"})
    builder.add(Signal("requests_running", Kind.COUNTER, "another"), {"target": "f"})
    layout = builder.build()
    text = page.render([Block(layout, [1.0] * layout.size)]).decode()
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        'inference_requests_running{target="e"} 1'
    ]
    assert refused == [("a", "label"), ("b", "label"), ("c", "label"), ("d", "label"), ("f", "type")]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12.0, "12"),
        (True, "1"),
        (5, "5"),
        (0.1, "0.1"),
        (-0.0, "0"),
        (inf, "+Inf"),
        (-inf, "-Inf"),
        (2.0**53, "9007199254740992"),
        (1e-7, "1e-07"),
        (1 / 3, "0.3333333333333333"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    page = render_blocks([block_of([("requests_running", {}, value)])])
    assert page.decode().splitlines()[-1] == f"inference_requests_running {text}"


@pytest.mark.parametrize(
    ("bound", "text"),
    [(0.005, "0.005"), (1, "1.0"), (2560, "2560.0"), (1e6, "1e+06"), (1e-5, "1e-05"), (inf, "+Inf")],
)
def test_bounds_are_in_the_canonical_form(bound: float, text: str) -> None:
    assert le(bound) == text


def test_half_a_surrogate_pair_does_not_stop_the_page() -> None:
    page = render_blocks([block_of([("requests_running", {"model_name": "a\ud800b"}, 1)])])
    assert b'model_name="a?b"' in page


def test_a_changed_array_of_the_caller_changes_nothing_already_rendered() -> None:
    values = array("d", [1.0])
    layout = block_of([("requests_running", {}, 0)]).layout
    page = Page()
    page.render([Block(layout, values)])
    values[0] = 2.0
    assert page.render([Block(layout, array("d", values))]).endswith(b" 2\n")


def test_numbers_that_do_not_fit_their_layout_are_refused_and_leave_the_page_whole() -> None:
    layout = block_of([("requests_running", {}, 0), ("requests_waiting", {}, 0)]).layout
    page = Page()
    before = page.render([Block(layout, (1, 2))])
    with pytest.raises(ValueError, match="1 numbers where its layout has 2"):
        page.render([Block(layout, (3,))])
    assert page.render([Block(layout, (1, 2))]) == before


def test_the_tail_stands_before_the_end_of_file() -> None:
    blocks = [block_of([("requests_running", {}, 1)])]
    tail = b"# TYPE up gauge\nup 1\n"
    assert Page().render(blocks, tail=tail).endswith(b" 1\n" + tail)
    assert Page().render(blocks, openmetrics=True, tail=tail).endswith(b" 1\n" + tail + b"# EOF\n")


def test_every_signal_of_the_schema_reads_back_in_both_formats() -> None:
    blocks = vllm_like(2, 1)
    want = sorted(expected(blocks), key=repr)
    assert sorted(samples_of(render_blocks(blocks)), key=repr) == want
    assert sorted(samples_of(render_blocks(blocks, openmetrics=True), openmetrics=True), key=repr) == want


@pytest.mark.parametrize("group", GROUPS)
def test_promtool_finds_nothing_to_say_about_any_signal(group: str) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool isn't installed (Debian package prometheus)")
    names = {signal.name for signal in GROUPS[group]}
    (block,) = vllm_like(1, 1)
    values = [
        value if series.signal.name in names else nan
        for series in block.layout.series
        for value in block.values[series.start : series.start + series.width]
    ]
    page = render_blocks([Block(block.layout, values)])
    assert page
    checked = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, timeout=60)
    assert (checked.returncode, checked.stderr.decode()) == (0, "")
