"""vLLM's metrics page, rendered from a replica as the real one shows itself, version by version.

Two front ends write it. The Python one (all versions): classic text whatever is asked for, labels sorted,
floats, a `_created` gauge for each counter and histogram, the process's own figures; in multi-process mode
(several ranks or API servers) neither of the last two, and gauges without a sample before the first step.
The Rust one (an option of late versions): OpenMetrics only, series appear when first used, fewer
families.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from sidecar.simulator.page import Lines, buckets, python_number, rust_number
from sidecar.simulator.replica import Replica
from sidecar.simulator.telemetry import Telemetry
from sidecar.simulator.vllm_families import FAMILIES
from sidecar.simulator.vllm_family import V1, Family, Version, View, version_of
from sidecar.simulator.vllm_front import cache_config, front_end_python, front_end_rust, process

ENGINE_LABEL: Version = (0, 8, 5)
ADMISSION: Version = (0, 32, 0)
HTTP: Version = (0, 8, 3)
_REJECTIONS = "Number of admission attempts rejected by a queue limit, by reason."
_CACHE = "Information of the LLMEngine CacheConfig"


class Dialect(StrEnum):
    PYTHON = "python"
    RUST = "rust"


class VllmPage:
    """The page of one version and dialect.

    `multiprocess` None means what the replica's ranks imply. ValueError for a version that is none. The
    page keeps the last token counts, for the five-second averages that 0.6 shows.
    """

    def __init__(
        self, version: str = "0.32.0", dialect: Dialect = Dialect.PYTHON, *, multiprocess: bool | None = None
    ) -> None:
        self.version = version
        self.dialect = dialect
        self._version = version_of(version)
        self._families = [family for family in FAMILIES if family.exists_in(self._version)]
        self._multiprocess = multiprocess
        self._averages: dict[int, tuple[float, int, int, tuple[float, float]]] = {}

    @property
    def content_type(self) -> str:
        if self.dialect is Dialect.RUST:
            return "application/openmetrics-text; version=1.0.0; charset=utf-8"
        classic = "1.0.0" if self._version >= (0, 11, 0) else "0.0.4"
        return f"text/plain; version={classic}; charset=utf-8"

    def render(self, replica: Replica) -> bytes:
        """The page as bytes. ValueError for several ranks in a version that can't tell them apart."""
        if len(replica.ranks) > 1 and self._version < ENGINE_LABEL:
            raise ValueError(f"vLLM {self.version} has no label for the rank: give the replica one")
        return self._rust(replica) if self.dialect is Dialect.RUST else self._python(replica)

    # Python front end

    def _python(self, replica: Replica) -> bytes:
        many = len(replica.ranks) > 1 if self._multiprocess is None else self._multiprocess
        created = "" if many or self._version < V1 else python_number(replica.epoch + replica.ready_at)
        lines = Lines()
        if not many and self._version >= V1:
            process(lines, replica)
        for family in self._families:
            self._python_family(lines, family, replica, many, created)
            if family.name == "vllm:request_success" and self._version >= ADMISSION:
                self._rejections(lines, replica, created)
        lines.family("vllm:cache_config_info", "gauge", _CACHE)
        for number in range(len(replica.ranks)):
            lines.sample("vllm:cache_config_info", cache_config(replica, number, self._version), "1.0")
        if self._version >= HTTP:
            front_end_python(lines, replica, created)
        return lines.text()

    def _python_family(
        self, lines: Lines, family: Family, replica: Replica, many: bool, created: str
    ) -> None:
        text = family.help_in(self._version)
        name = f"{family.name}_total" if family.kind == "counter" else family.name
        lines.family(name, family.kind, text)
        born: list[dict[str, str]] = []
        for labels, view in self._views(replica):
            if family.histogram is not None:
                _python_histogram(lines, family, labels, view, many)
                born.append(labels)
            elif family.scalars is not None and not (many and family.late and not _stepped(view, family)):
                for more, value in family.scalars(view):
                    series = dict(sorted({**labels, **more}.items()))
                    lines.sample(name, series, python_number(value))
                    born.append(series)
        if created and family.kind != "gauge":
            lines.family(f"{family.name}_created", "gauge", text)
            for series in born:
                lines.sample(f"{family.name}_created", series, created)

    def _rejections(self, lines: Lines, replica: Replica, created: str) -> None:
        lines.family("vllm:admission_rejections_total", "counter", _REJECTIONS)
        series = [
            ({"model_name": replica.config.model_name, "reason": f"max_num_queued_{what}"}, count)
            for what, count in (
                ("reqs", replica.front.rejected_by_requests),
                ("tokens", replica.front.rejected_by_tokens),
            )
        ]
        for labels, count in series:
            lines.sample("vllm:admission_rejections_total", labels, python_number(count))
        if created:
            lines.family("vllm:admission_rejections_created", "gauge", _REJECTIONS)
            for labels, _ in series:
                lines.sample("vllm:admission_rejections_created", labels, created)

    # Rust front end

    def _rust(self, replica: Replica) -> bytes:
        lines = Lines()
        for family in self._families:
            if family.rust:
                self._rust_family(lines, family, replica)
        front_end_rust(lines, replica)
        lines.add("# EOF")
        return lines.text()

    def _rust_family(self, lines: Lines, family: Family, replica: Replica) -> None:
        rows: list[tuple[str, dict[str, str], str]] = []
        name = f"{family.name}_total" if family.kind == "counter" else family.name
        for labels, view in self._views(replica):
            if family.histogram is not None:
                histogram = family.histogram(view.rank)
                if histogram.count:
                    assert family.bounds is not None
                    rows.append((f"{name}_sum", labels, python_number(histogram.total)))
                    rows.append((f"{name}_count", labels, str(histogram.count)))
                    bounds = family.bounds(view)
                    for edge, count in buckets(histogram, bounds):
                        rows.append((f"{name}_bucket", {"le": edge, **labels}, str(count)))
            elif family.scalars is not None and view.rank.steps:
                for more, value in family.scalars(view):
                    if value or family.kind == "gauge":
                        rows.append((name, {**labels, **more}, rust_number(value)))
        if rows:
            lines.family(family.name, family.kind, family.help_in(self._version))
            for sample, labels, number in rows:
                lines.sample(sample, labels, number)

    # Both

    def _views(self, replica: Replica) -> Iterator[tuple[dict[str, str], View]]:
        """Labels and view of each rank, the labels in the dialect's order."""
        model = replica.config.model_name
        for number, rank in enumerate(replica.ranks):
            if self.dialect is Dialect.RUST:
                labels = {"model_name": model, "engine": str(number)}
            elif self._version >= ENGINE_LABEL:
                labels = {"engine": str(number), "model_name": model}
            else:
                labels = {"model_name": model}
            rates = self._rates(number, rank, replica.now) if self._version < V1 else (0.0, 0.0)
            longest = replica.config.engine.max_model_len
            yield labels, View(rank, self._version, longest, self.dialect is Dialect.RUST, rates)

    def _rates(self, number: int, rank: Telemetry, now: float) -> tuple[float, float]:
        """Tokens a second between the last two looks that were five seconds or more apart."""
        prompt, generated = rank.prompt_tokens, rank.generation_tokens
        fresh = (now, prompt, generated, (0.0, 0.0))
        then, prompt_then, generated_then, rates = self._averages.get(number, fresh)
        if prompt < prompt_then or generated < generated_then:
            self._averages[number] = fresh
            return 0.0, 0.0
        if now - then >= 5.0:
            rates = ((prompt - prompt_then) / (now - then), (generated - generated_then) / (now - then))
            self._averages[number] = (now, prompt, generated, rates)
        else:
            self._averages.setdefault(number, fresh)
        return rates


def _stepped(view: View, family: Family) -> bool:
    return family.kind != "gauge" or view.rank.steps > 0


def _python_histogram(lines: Lines, family: Family, labels: dict[str, str], view: View, many: bool) -> None:
    assert family.histogram is not None and family.bounds is not None
    histogram = family.histogram(view.rank)
    for edge, count in buckets(histogram, family.bounds(view)):
        series = dict(sorted({**labels, "le": edge}.items()))
        lines.sample(f"{family.name}_bucket", series, python_number(count))
    ends = [("_count", float(histogram.count)), ("_sum", histogram.total)]
    for end, value in reversed(ends) if many else ends:
        lines.sample(f"{family.name}{end}", labels, python_number(value))
