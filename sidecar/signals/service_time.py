"""Service time: how long a request executes."""

from __future__ import annotations

from sidecar.history import Table
from sidecar.schema import Method
from sidecar.signals.formula import Formula, Way

WINDOWS = (60.0, 120.0, 300.0, 600.0)
ENOUGH = 10

FROM_INFERENCE, FROM_LATENCY, FROM_LEVEL, FROM_CONFIG = SERVICE_TIME_WAYS = (
    Way(("request_inference_time_seconds",), "mean of request_inference_time_seconds"),
    Way(
        ("e2e_request_latency_seconds", "request_queue_time_seconds"),
        "mean of e2e_request_latency_seconds less request_queue_time_seconds",
        Method.ESTIMATED,
    ),
    Way(
        ("compute_seconds_total", "requests_total"),
        "compute_seconds_total over finished requests (Little's law)",
        Method.ESTIMATED,
    ),
    Way(("targets.capacity.service_time",), "seed", Method.ESTIMATED),
)
SERVICE_TIME = Formula("service_time_seconds", SERVICE_TIME_WAYS)


class ServiceTime:
    """W = Δ(seconds executed) ÷ Δ(requests) over the shortest window that saw enough finishes; else the last
    one; else the seed. None when there is none."""

    __slots__ = ("measured", "seed")

    def __init__(self, seed: float | None = None) -> None:
        self.seed = seed
        self.measured: float | None = None

    @property
    def value(self) -> float | None:
        return self.seed if self.measured is None else self.measured

    def update(self, table: Table, seconds: int, requests: int) -> None:
        """Read the columns of seconds executed and of finished requests."""
        for window in WINDOWS:
            since = table.base(window)
            finished = table.increase(requests, since)
            if finished >= ENOUGH or (window == WINDOWS[-1] and finished > 0):
                executed = table.increase(seconds, since)
                if executed > 0:
                    self.measured = executed / finished
                return
            if since == 0:  # the longer windows would see the same
                if finished > 0 and (executed := table.increase(seconds, since)) > 0:
                    self.measured = executed / finished
                return
