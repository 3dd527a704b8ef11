"""Blocks in, a page out. Names and labels are rendered once for each tuple of layouts; afterwards only the
values that changed are formatted.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sidecar.outputs.prometheus.text import (
    SeriesKey,
    header,
    number,
    prefixes,
    series_key,
    valid_labels,
)
from sidecar.schema import SIGNALS, Kind, Signal
from sidecar.snapshot import ABSENT, Block, Layout, Series, is_absent

Refused = Callable[[str, str], None]

_SCHEMA_ORDER = {name: place for place, name in enumerate(SIGNALS)}

#: A line that is always empty: where the numbers of a refused series go, which are held absent.
_NOWHERE = 0


@dataclass(frozen=True, slots=True)
class _Histogram:
    """Its count stands twice on the page: as the +Inf bucket, and as `_count` on a line of its own."""

    series: Series
    line: int
    prefix: str


class _Feed:
    """Where one block's numbers go on the page, and what they were."""

    __slots__ = ("_source", "histograms", "layout", "lines", "prefixes", "refused", "values")

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.lines = [_NOWHERE] * layout.size
        self.prefixes = [""] * layout.size
        self.histograms: list[_Histogram] = []
        self.refused: list[Series] = []
        self.values = array("d", [ABSENT]) * layout.size
        self._source: Sequence[float] | None = None

    def write(self, values: Sequence[float], page: list[str]) -> None:
        """Rewrite the lines of the numbers that differ from the last ones."""
        if values is self._source:
            return
        new = array("d", values)
        if len(new) != len(self.values):
            raise ValueError(f"a block has {len(new)} numbers where its layout has {len(self.values)}")
        for series in self.refused:
            _hide(series, new)
        for histogram in self.histograms:
            self._write_count(histogram, new, page)
        for line, text, was, now in zip(self.lines, self.prefixes, self.values, new, strict=True):
            if now != was:
                # `number` written out: a call for each line would cost a third of the speed
                if now.is_integer():
                    page[line] = f"{text}{int(now)}\n"
                elif now - now == 0.0:
                    page[line] = f"{text}{now!r}\n"
                else:
                    page[line] = "" if is_absent(now) else f"{text}{number(now)}\n"
        self.values = new
        self._source = values

    def _write_count(self, histogram: _Histogram, new: array[float], page: list[str]) -> None:
        count = new[histogram.series.count_index]
        if is_absent(count):
            _hide(histogram.series, new)
            page[histogram.line] = ""
        elif count != self.values[histogram.series.count_index]:
            page[histogram.line] = f"{histogram.prefix}{number(count)}\n"


@dataclass(slots=True)
class _Family:
    signal: Signal
    rows: list[tuple[_Feed, Series]] = field(default_factory=list)
    first: int = 0  # its header; its samples follow
    stop: int = 0
    headers: tuple[str, str] = ("", "")  # text, OpenMetrics


class Page:
    """The lines of the last page, kept for the next one.

    `refused` is called with a target and a reason (`duplicate`, `type`, `label`) for each series that a
    scraper would refuse, or would refuse the whole page for; once each time that the layouts change.
    """

    def __init__(self, refused: Refused | None = None) -> None:
        self._refused = refused
        self._layouts: tuple[Layout, ...] | None = None
        self._feeds: list[_Feed] = []
        self._families: list[_Family] = []
        self._lines: list[str] = []

    def render(self, blocks: Sequence[Block], *, openmetrics: bool = False, tail: bytes = b"") -> bytes:
        """The page in UTF-8: families in the schema's order, absent numbers left out, a family of nothing
        but absent ones left out, a histogram without its count left out. Of the same series in two blocks
        the first counts. `tail` is whole lines of other families, set before OpenMetrics' `# EOF`.
        """
        layouts = tuple(block.layout for block in blocks)
        if layouts != self._layouts:
            self._compile(layouts)
        lines = self._lines
        for feed, block in zip(self._feeds, blocks, strict=True):
            feed.write(block.values, lines)
        for family in self._families:
            first, stop = family.first + 1, family.stop
            present = lines[first] or any(lines[first + 1 : stop])
            lines[family.first] = family.headers[openmetrics] if present else ""
        if not openmetrics:
            return "".join(lines).encode() + tail
        return "".join(self._with_paired_counts()).encode() + tail + b"# EOF\n"

    def _with_paired_counts(self) -> list[str]:
        """OpenMetrics has `_sum` and `_count` both or neither; the +Inf bucket still tells the count."""
        alone = [
            histogram.line
            for feed in self._feeds
            for histogram in feed.histograms
            if is_absent(feed.values[histogram.series.sum_index])
        ]
        lines = self._lines
        if alone:
            lines = list(lines)
            for line in alone:
                lines[line] = ""
        return lines

    def _compile(self, layouts: tuple[Layout, ...]) -> None:
        self._feeds = [_Feed(layout) for layout in layouts]
        self._families = self._group()
        self._lines = [""]
        for family in self._families:
            family.first = len(self._lines)
            family.headers = (header(family.signal, False), header(family.signal, True))
            self._lines.append("")
            for feed, series in family.rows:
                self._place(feed, series)
            family.stop = len(self._lines)
        self._layouts = layouts

    def _group(self) -> list[_Family]:
        families: dict[str, _Family] = {}
        seen: set[SeriesKey] = set()
        for feed in self._feeds:
            for series in feed.layout.series:
                signal = series.signal
                family = families.setdefault(signal.name, _Family(signal))
                key = series_key(series)
                if not valid_labels(series):
                    self._refuse(feed, series, "label")
                elif signal.kind is not family.signal.kind:
                    self._refuse(feed, series, "type")
                elif key in seen:
                    self._refuse(feed, series, "duplicate")
                else:
                    seen.add(key)
                    family.rows.append((feed, series))
        known = len(_SCHEMA_ORDER)
        return sorted(
            (family for family in families.values() if family.rows),
            key=lambda family: _SCHEMA_ORDER.get(family.signal.name, known),
        )

    def _refuse(self, feed: _Feed, series: Series, reason: str) -> None:
        feed.refused.append(series)
        if self._refused is not None:
            self._refused(series.label("target"), reason)

    def _place(self, feed: _Feed, series: Series) -> None:
        own = prefixes(series)
        line = len(self._lines)
        feed.lines[series.start : series.start + series.width] = range(line, line + series.width)
        feed.prefixes[series.start : series.start + series.width] = own[: series.width]
        if series.signal.kind is Kind.HISTOGRAM:
            feed.histograms.append(_Histogram(series, line + series.width, own[-1]))
        self._lines.extend([""] * len(own))


def render_blocks(blocks: Sequence[Block], openmetrics: bool = False) -> bytes:
    """One page of these blocks, once."""
    return Page().render(blocks, openmetrics=openmetrics)


def _hide(series: Series, values: array[float]) -> None:
    values[series.start : series.start + series.width] = array("d", [ABSENT]) * series.width
