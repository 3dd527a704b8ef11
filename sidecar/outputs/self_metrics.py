"""The sidecar's own metrics, in a registry of their own."""

from __future__ import annotations

import asyncio
import platform
from collections import deque
from collections.abc import Iterator
from math import isnan, nan

from prometheus_client import CollectorRegistry, Counter, Gauge, Metric, ProcessCollector, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from sidecar import __version__
from sidecar.schema import SIGNALS, Kind, Signal

_TICK = 0.25
_TICKS_PER_SECOND = 4


class SelfMetrics:
    """What the sidecar says about itself. Names, labels and help are the schema's.

    A gauge that nobody has set yet is absent.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._build = self._gauge("sidecar_build_info")
        self._config_loaded = self._gauge("sidecar_config_loaded_timestamp_seconds")
        self._reload_success = self._gauge("sidecar_config_reload_success")
        self._series_dropped = self._counter("sidecar_series_dropped_total")
        self._loop_lag = self._gauge("sidecar_loop_lag_seconds")
        self._output_errors = self._counter("sidecar_output_errors_total")
        self._state_errors: Counter | None = None
        self._state_saved = self._gauge("sidecar_state_saved_timestamp_seconds")
        self._build.labels(version=__version__, python=platform.python_version()).set(1)

    def config_loaded(self, time: float) -> None:
        """A config is in force since `time`, Unix time."""
        self._config_loaded.set(time)
        self._reload_success.set(1)

    def config_refused(self) -> None:
        """A new config can't be used: the old one stays in force."""
        self._reload_success.set(0)

    def series_dropped(self, target: str, reason: str, count: int = 1) -> None:
        self._series_dropped.labels(target=target, reason=reason).inc(count)

    def output_failed(self, output: str) -> None:
        self._output_errors.labels(output=output).inc()

    def keeps_state(self) -> None:
        """There is a state file: from now on its errors are counted."""
        self._state_errors = self._counter("sidecar_state_write_errors_total")

    def state_saved(self, time: float | None) -> None:
        """The state file was written at `time`, Unix time; None: it could not be."""
        if time is not None:
            self._state_saved.set(time)
        elif self._state_errors is not None:
            self._state_errors.inc()

    def loop_lagged(self, seconds: float) -> None:
        self._loop_lag.set(seconds)

    async def watch_loop(self) -> None:
        """Time the event loop until cancelled: the worst of the last second's timers is its lag."""
        loop = asyncio.get_running_loop()
        late: deque[float] = deque(maxlen=_TICKS_PER_SECOND)
        while True:
            due = loop.time() + _TICK
            await asyncio.sleep(_TICK)
            late.append(max(0.0, loop.time() - due))
            self.loop_lagged(max(late))

    def render(self, *, openmetrics: bool = False) -> bytes:
        """Whole lines in UTF-8, without OpenMetrics' `# EOF`: the page that they join ends with it."""
        if openmetrics:
            page: bytes = generate_openmetrics(self)  # type: ignore[no-untyped-call]
            return page.removesuffix(b"# EOF\n")
        return generate_latest(self)

    def collect(self) -> Iterator[Metric]:
        """The registry's families without `_created`, without what nobody has set, none of them empty."""
        for metric in self.registry.collect():
            created = metric.name + "_created"
            metric.samples = [
                sample for sample in metric.samples if sample.name != created and not isnan(sample.value)
            ]
            if metric.samples:
                yield metric

    def _gauge(self, name: str) -> Gauge:
        signal = _signal(name, Kind.GAUGE)
        gauge = Gauge(signal.family, signal.help, signal.labels, registry=self.registry)
        if not signal.labels:
            gauge.set(nan)
        return gauge

    def _counter(self, name: str) -> Counter:
        signal = _signal(name, Kind.COUNTER)
        return Counter(signal.family, signal.help, signal.labels, registry=self.registry)


def _signal(name: str, kind: Kind) -> Signal:
    signal = SIGNALS[name]
    assert signal.kind is kind, f"{name} is a {signal.kind} in the schema"
    return signal
