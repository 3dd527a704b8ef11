"""One sidecar's page: the lines that the fleet adds up, and what each of them is."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.exposition import PageError, PageReader, Sample, Shape
from sidecar.schema import PREFIX, SIGNALS, Status
from sidecar.snapshot import Labels

#: Gauges whose sum over replicas means something.
SUMMED = (
    "replica_demand",
    "offered_load_requests",
    "requests_running",
    "requests_waiting",
    "queued_gpu_seconds",
)
COUNTED = (
    "queue_seconds_total",
    "compute_seconds_total",
    "arrivals_total",
    "requests_total",
    "prompt_tokens_total",
    "generation_tokens_total",
    "accepted_generation_tokens_total",
    "accepted_requests_total",
    "slo_events_total",
    "slo_bad_events_total",
    "energy_joules_total",
    "cost_total",
)
#: Of a replica alone: kept as medians, or joined in another way than by a sum.
OWN = (
    "service_time_seconds",
    "idle_inter_token_latency_seconds",
    "capacity_requests",
    "kv_cache_usage_ratio",
    "kv_cache_capacity_tokens",
)
#: Of the fullest replica; how many replicas say the same.
HIGHEST = "saturation_ratio"
DECIDED = "replica_demand_info"
UP = "target_up"

WANTED = (UP, *SUMMED, *COUNTED, *OWN, HIGHEST, DECIDED)
#: Of an objective's counts a target tells also while it says nothing of its work.
_JUDGED = frozenset({"slo_events_total", "slo_bad_events_total"})
_NEEDLES = tuple(f"\n{PREFIX}{name}{{".encode() for name in WANTED)
#: Of the lines that tell what a target can't say, those of a conflict alone are kept: there are dozens of them.
_INFO = "signal_info"
_INFO_LINE, _CONFLICT = f"{PREFIX}{_INFO}{{".encode(), f'status="{Status.CONFLICT}"'.encode()
_A_SIDECAR = f"\n{PREFIX}sidecar_build_info{{".encode()

Key = tuple[str, str, Labels]
"""Signal, model, own labels."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Where a page's numbers are: (place, target, key), by how they are joined."""

    up: tuple[tuple[int, str], ...]
    summed: tuple[tuple[int, str, Key], ...]
    counted: tuple[tuple[int, str, Key], ...]
    own: tuple[tuple[int, str, Key], ...]
    highest: tuple[tuple[int, Key], ...]
    decided: tuple[tuple[int, Key], ...]
    models: frozenset[tuple[str, str]]  # (target, model) of whose load anything is told
    told: frozenset[str]  # targets of whose work anything is told
    conflicts: frozenset[str]  # targets with signals that are withheld for a conflict


class SidecarPage:
    """Reads the pages of one sidecar; what each line is, is found out once for each set of series."""

    def __init__(self) -> None:
        self._reader = PageReader()
        self._shape: Shape | None = None
        self.plan = Plan((), (), (), (), (), (), frozenset(), frozenset(), frozenset())
        self.values: list[float] = []

    def read(self, body: bytes) -> None:
        """Take a page into `plan` and `values`. Raises PageError."""
        if _A_SIDECAR not in body:
            raise PageError("not_metrics", "not the page of a sidecar: no inference_sidecar_build_info")
        if not body.endswith(b"\n"):
            raise PageError("parse_error", "the page ends in mid-air: no newline at its end")
        reading = self._reader.read(wanted_lines(body))
        if reading.shape is not self._shape:
            self.plan, self._shape = _plan(reading.shape.samples), reading.shape
        self.values = reading.values


def wanted_lines(body: bytes) -> bytes:
    """The lines of the wanted families, which stand together on a page: a tenth of it. The rest is never split
    into lines, so that a thousand pages fit into memory."""
    parts = []
    body = b"\n" + body
    for needle in _NEEDLES:
        start = end = body.find(needle)
        while end >= 0 and body.startswith(needle, end):
            end = body.find(b"\n", end + 1)
        if start >= 0:
            parts.append(body[start + 1 : end + 1])
    found = body.find(_CONFLICT)
    while found >= 0:
        start, end = body.rfind(b"\n", 0, found) + 1, body.find(b"\n", found)
        if body.startswith(_INFO_LINE, start):
            parts.append(body[start : end + 1])
        found = body.find(_CONFLICT, end)
    return b"".join(parts)


def _plan(samples: tuple[Sample, ...]) -> Plan:
    up, summed, counted, own, highest, decided = [], [], [], [], [], []
    models, told, conflicts = set(), set(), set()
    for place, sample in enumerate(samples):
        name = sample.name.removeprefix(PREFIX)
        target, model = sample.label("target"), sample.label("model_name")
        if sample.label("rank"):
            continue  # the line of all ranks stands beside it
        if name == _INFO:
            conflicts.add(target)
            continue
        own_labels = SIGNALS[name].labels
        key: Key = (name, model, tuple(pair for pair in sample.labels if pair[0] in own_labels))
        if name == UP:
            up.append((place, target))
        elif name in SUMMED:
            summed.append((place, target, key))
            models.add((target, model))
            told.add(target)
        elif name in COUNTED:
            counted.append((place, target, key))
            if name not in _JUDGED:
                told.add(target)
        elif name in OWN:
            own.append((place, target, key))
        elif name == HIGHEST:
            highest.append((place, key))
        elif name == DECIDED:
            decided.append((place, key))
    return Plan(
        tuple(up),
        tuple(summed),
        tuple(counted),
        tuple(own),
        tuple(highest),
        tuple(decided),
        frozenset(models),
        frozenset(told),
        frozenset(conflicts),
    )
