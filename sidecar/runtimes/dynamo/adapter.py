"""Dynamo's front end: its health says healthy without a single worker, its page doesn't."""

from __future__ import annotations

from sidecar.exposition import Reading, Shape
from sidecar.runtimes.adapter import Adapter, Answer, Endpoint, Model
from sidecar.runtimes.mapping import Mapping

_READY = "dynamo_frontend_model_ready"
_UPTIME = "dynamo_component_uptime_seconds"
#: The start is told by an uptime: it jitters by the time that a scrape takes.
_JITTER = 1.5


class Dynamo(Adapter):
    folder = "dynamo"
    endpoints: tuple[Endpoint, ...] = (
        Endpoint("metrics", "/metrics", page=True),
        Endpoint("health", "/live", api=True, every=5.0),
        Endpoint("models", "/v1/models", api=True, every=60.0),
    )
    progress = ("dynamo_frontend_output_tokens_total", "dynamo_frontend_requests_total")
    start_is_told = False  # it is an uptime, and one that goes back is a clock that was set

    def __init__(self, mapping: Mapping | None = None) -> None:
        super().__init__(mapping)
        self._shape: Shape | None = None
        self._ready: list[int] = []
        self._uptime: list[int] = []
        self._read_at = 0.0

    def learn(self, name: str, answer: Answer) -> None:
        if name == "health":
            self.known(live=answer.ok)
        elif name == "models" and answer.ok and isinstance(body := answer.json(), dict):
            rows = body.get("data")
            if isinstance(rows, list):
                names = [str(row.get("id", "")) for row in rows[:64] if isinstance(row, dict)]
                self.known(models=tuple(map(Model, names)))

    def observe(self, reading: Reading) -> None:
        if reading.shape is not self._shape:
            self._shape = reading.shape
            names = [self.mapping.canonical(sample.name) for sample in reading.shape.samples]
            self._ready = [slot for slot, name in enumerate(names) if name == _READY]
            self._uptime = [slot for slot, name in enumerate(names) if name == _UPTIME][:1]
        ready = any(reading.values[slot] == 1 for slot in self._ready)
        if ready is not self.facts.ready:
            self.known(ready=ready)
        for slot in self._uptime:
            start, known = self.now - reading.values[slot], self.facts.start_time
            # A process that started anew did so after the last reading; else it is the clock that was set.
            anew = known is not None and abs(start - known) > _JITTER and start > self._read_at - _JITTER
            if 0 < start <= self.now and (known is None or anew):
                self.known(start_time=start)
        self._read_at = self.now

    def findings(self) -> tuple[str, ...]:
        if self.facts.ready is False:
            return ("no worker serves a model, though /health says healthy: look at the workers",)
        return ()
