"""The fleet: raw numbers of all members added up, ratios computed once.

Pure: addresses, pages and a monotonic clock in, a block out. What it says now depends on the members' last
pages only, so two of these that read the same sidecars say the same; counters alone are since the start of
each.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from math import nan
from statistics import median

from sidecar.fleet.member import Member, State
from sidecar.fleet.page import COUNTED, SUMMED, Key
from sidecar.fleet.router import Router
from sidecar.fleet.total import scaled_up
from sidecar.schema import SIGNALS
from sidecar.signals.queue_to_compute import queue_to_compute
from sidecar.snapshot import EMPTY_BLOCK, Block, Labels, Layout, LayoutBuilder

WINDOW = 60.0
#: (kept figure of a replica, signal of the fleet)
_MEDIANS = ("service_time_seconds", "idle_inter_token_latency_seconds", "capacity_requests")
_Row = tuple[str, Labels]


class Fleet:
    """`stale_after` seconds after its last good page a member counts as blind. `utilisation` is the share of its
    capacity that a replica should carry: for the first answer from zero."""

    def __init__(self, *, stale_after: float = 15.0, utilisation: float = 0.9) -> None:
        self.members: dict[str, Member] = {}
        self.router: Router | None = None
        self.discovered: bool | None = None
        self.reads: Counter[str] = Counter()
        self.answers: Counter[tuple[str, str]] = Counter()
        self.answer_seconds: dict[str, float] = {}
        self.kept: dict[str, dict[str, float]] = {}  # model → figures that outlive its replicas
        self._stale_after = stale_after
        self._utilisation = utilisation
        self._counters: dict[Key, float] = {}
        self._past: deque[tuple[float, dict[str, tuple[float, float]]]] = deque()
        self._failed_by: set[str] = set()  # results that were ever seen
        self._rows: dict[_Row, float] = {}
        self._layout: Layout | None = None
        self._order: tuple[_Row, ...] = ()

    def list(self, addresses: Iterable[str], *, vouched: bool) -> None:
        """What discovery has found: who isn't in it is gone at once, with all that it said."""
        self.discovered = True
        wanted = dict.fromkeys(addresses)
        self.members = {
            address: self.members.get(address) or Member(address, vouched=vouched) for address in wanted
        }

    def list_failed(self) -> None:
        """The last list holds."""
        self.discovered = False

    def read(self, address: str, body: bytes, now: float) -> None:
        """A member's page. Raises PageError; pages of members that are gone are let fall."""
        member = self.members.get(address)
        if member is None:
            return
        for key, by in member.read(body, now).items():
            self._counters[key] = self._counters.get(key, 0.0) + by
        self.reads["ok"] += 1

    def failed(self, address: str, error: str, detail: str = "") -> None:
        self.reads[error] += 1
        self._failed_by.add(error)
        member = self.members.get(address)
        if member is not None:
            member.failed(error, detail)

    def answered(self, method: str, code: str, seconds: float) -> None:
        """KEDA was given an answer."""
        self.answers[method, code] += 1
        self.answer_seconds[method] = self.answer_seconds.get(method, 0.0) + seconds

    def block(self, now: float) -> Block:
        """Everything as of now; what can't be told is absent."""
        self._rows = {}
        states = {address: one.state(now, self._stale_after) for address, one in self.members.items()}
        serving = [one for address, one in self.members.items() if states[address] == "serving"]
        ready = [one for address, one in self.members.items() if states[address] != "starting"]
        self._count_replicas(states, now)
        sums, answering = _sums(serving)
        for (signal, model, labels), total in sums.items():
            expected = sum(one.expected(model) for one in ready)
            heard = answering[signal, model, labels]
            self._put(f"fleet_{signal}", model, scaled_up(total, expected, heard), labels)
        self._keep(serving)
        self._constrain(serving)
        self._from_zero(now)
        for (signal, model, labels), total in self._counters.items():
            self._put(f"fleet_{signal}", model, total, labels)
        self._ratio(now)
        self._itself()
        return self._built()

    def _count_replicas(self, states: Mapping[str, State], now: float) -> None:
        """One a target, and one for a sidecar that has told of none."""
        listed = ready = answering = 0
        for address, member in self.members.items():
            targets = list(member.targets(now, self._stale_after).values())
            serving = targets.count("serving")
            listed += max(1, len(targets))
            ready += 0 if states[address] == "starting" else max(1, serving + targets.count("blind"))
            answering += serving
        for state, count in (("listed", listed), ("ready", ready), ("answering", answering)):
            self._put("fleet_replicas", "", float(count), (("state", state),))

    def _keep(self, serving: Iterable[Member]) -> None:
        """Medians over the replicas that tell them; the last ones stay when nobody does any more."""
        told: dict[tuple[str, str], list[float]] = {}
        usage: dict[str, list[tuple[float, float]]] = {}
        for member in serving:
            for (_, model), figures in member.own().items():
                for signal in _MEDIANS:
                    if signal in figures:
                        told.setdefault((model, signal), []).append(figures[signal])
                if "kv_cache_usage_ratio" in figures:
                    weight = figures.get("kv_cache_capacity_tokens", 1.0)
                    usage.setdefault(model, []).append((figures["kv_cache_usage_ratio"], weight))
        for (model, signal), values in told.items():
            self.kept.setdefault(model, {})[signal] = median(values)
        for model, figures in self.kept.items():
            for signal, value in figures.items():
                self._put(f"fleet_{signal}", model, value)
        for model, pairs in usage.items():
            whole = sum(weight for _, weight in pairs)
            if whole > 0:
                used = sum(share * weight for share, weight in pairs)
                self._put("fleet_kv_cache_usage_ratio", model, used / whole)

    def _constrain(self, serving: Iterable[Member]) -> None:
        """How full the fullest replica is, and what limits how many."""
        fullest: dict[Key, float] = {}
        decided: Counter[Key] = Counter()
        for member in serving:
            decided.update(member.decided())
            for key, value in member.highest():
                fullest[key] = max(value, fullest.get(key, value))
        for (_, model, labels), value in fullest.items():
            self._put("fleet_saturation_ratio", model, value, labels)
        for (_, model, labels), count in decided.items():
            self._put("fleet_decided_replicas", model, float(count), labels)

    def _from_zero(self, now: float) -> None:
        """With no replica at all the router tells what there is to do: its requests, for as long as they take."""
        if self.router is None:
            return
        seen = self.router.seen(now, self._stale_after)
        self._put("fleet_router_up", "", float(seen is not None))
        if seen is None:
            return
        self._put("fleet_router_in_flight_requests", "", seen.in_flight)
        if self.members or self.discovered is not True:
            return
        for model in self.kept or {"": {}}:
            figures = self.kept.get(model, {})
            load = max(seen.in_flight, seen.per_second * figures.get("service_time_seconds", 0.0))
            self._put("fleet_offered_load_requests", model, load)
            capacity = figures.get("capacity_requests")
            # Who never saw a replica wakes one, and lets it tell.
            demand = min(load, 1.0) if capacity is None else load / (capacity * self._utilisation)
            self._put("fleet_replica_demand", model, demand)

    def _ratio(self, now: float) -> None:
        """Of the increases of a minute, or since a model was first seen, once for the whole fleet."""
        present: dict[str, tuple[float, float]] = {}
        for (signal, model, _), total in self._counters.items():
            queue, compute = present.get(model, (0.0, 0.0))
            if signal == "queue_seconds_total":
                present[model] = (total, compute)
            elif signal == "compute_seconds_total":
                present[model] = (queue, total)
        self._past.append((now, present))
        while len(self._past) > 1 and self._past[1][0] <= now - WINDOW:
            self._past.popleft()
        for model, (queue, compute) in present.items():
            then, before = next(one for one in self._past if model in one[1])
            if now > then:
                was_queue, was_compute = before[model]
                value = queue_to_compute(queue - was_queue, compute - was_compute, now - then)
                self._put("fleet_queue_to_compute_ratio", model, value, (("window", "1m"),))

    def _itself(self) -> None:
        if self.discovered is not None:
            self._put("fleet_discovery_success", "", float(self.discovered))
        for result, count in self.reads.items():
            self._put("fleet_reads_total", "", float(count), (("result", result),))
        failing = Counter(one.error for one in self.members.values() if one.error)
        for result in self._failed_by:
            self._put("fleet_failing_sidecars", "", float(failing[result]), (("result", result),))
        for method, seconds in self.answer_seconds.items():
            self._put("fleet_scaler_answer_seconds_total", "", seconds, (("method", method),))
        for (method, code), count in self.answers.items():
            self._put("fleet_scaler_answers_total", "", float(count), (("method", method), ("code", code)))

    def _put(self, signal: str, model: str, value: float, labels: Labels = ()) -> None:
        named = (("model_name", model), *labels) if model else labels
        self._rows[signal, named] = value

    def _built(self) -> Block:
        """The rows as a block; one layout for as long as the rows are the same or become fewer."""
        if not self._rows.keys() <= set(self._order):
            build = LayoutBuilder()
            self._order = tuple(sorted(set(self._order) | self._rows.keys(), key=_by_schema))
            for signal, labels in self._order:
                build.add(signal, labels)
            self._layout = build.build()
        if self._layout is None:
            return EMPTY_BLOCK
        return Block(self._layout, [self._rows.get(row, nan) for row in self._order])


_PLACES = {name: place for place, name in enumerate(SIGNALS)}
assert all(f"fleet_{name}" in SIGNALS for name in (*SUMMED, *COUNTED, *_MEDIANS))


def _by_schema(row: _Row) -> tuple[int, Labels]:
    return _PLACES[row[0]], row[1]


def _sums(serving: Iterable[Member]) -> tuple[Mapping[Key, float], Counter[Key]]:
    """Totals, and how many replicas told each."""
    sums: dict[Key, float] = {}
    answering: Counter[Key] = Counter()
    for member in serving:
        for key, value in member.summed():
            sums[key] = sums.get(key, 0.0) + value
            answering[key] += 1
    return sums, answering
