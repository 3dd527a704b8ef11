"""Objectives over snapshots: one block of counters, burn rates and budgets a target and tick."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sidecar.slo.account import Account, Status
from sidecar.slo.check import Finding, Level, check_against_bounds
from sidecar.slo.objective import GOODPUT, Objective
from sidecar.slo.page import Page
from sidecar.slo.probed import Join, on_probes
from sidecar.slo.state import freeze, thaw
from sidecar.slo.track import MOST_ACCOUNTS, Track
from sidecar.snapshot import Block, Provenance, Snapshot

#: Events that a share between two buckets is judged by, before anybody is warned of it.
ENOUGH_EVENTS = 100

STATE_KEY = "slo/"
PROBED_STATE_KEY = "slo-probed/"


class SloEngine:
    """Feeds snapshots to objectives. `saved` is what an earlier engine's `saved()` returned: windows go on.

    State that can't be used is left alone and told in `problems`, and so are targets with too much to judge.
    """

    provenance: tuple[Provenance, ...] = ()  # slo_info tells it

    def __init__(self, objectives: Iterable[Objective], saved: Mapping[str, bytes] | None = None) -> None:
        self.objectives = tuple(objectives)
        self.problems: list[str] = []
        self._probes = any(one.probed for one in self.objectives)
        self._joins: dict[str, Join] = {}
        # By state key. The runtime's counters and the probes' restart each on their own: a track of its own each.
        self._pages: dict[str, Page] = {}
        self._full: set[str] = set()  # targets with more to judge than is possible: told once
        for key, body in (saved or {}).items():
            if key.startswith((STATE_KEY, PROBED_STATE_KEY)):
                try:
                    self._pages[key] = Page(thaw(body, self._of(key)))
                except ValueError as error:
                    self.problems.append(f"state of target {_target_of(key)} is not used: {error}")

    def feed(self, snapshot: Snapshot) -> Block:
        """The block of a target's objectives after this snapshot; NaN where nothing can be said."""
        target = snapshot.target
        block = self._fed(STATE_KEY + target, snapshot)
        if not self._probes:
            return block
        join = self._joins.setdefault(target, Join())
        return join.of(block, self._fed(PROBED_STATE_KEY + target, on_probes(snapshot)))

    def _fed(self, key: str, snapshot: Snapshot) -> Block:
        page = self._pages.get(key)
        if page is None:
            page = self._pages[key] = Page(Track(self._of(key)))
        page.track.feed(snapshot)
        if page.track.refused and snapshot.target not in self._full:
            self._full.add(snapshot.target)
            self.problems.append(f"target {snapshot.target}: {_too_many(page.track)}")
        return page.render(snapshot)

    def _of(self, key: str) -> tuple[Objective, ...]:
        probed, target = key.startswith(PROBED_STATE_KEY), _target_of(key)
        return tuple(one for one in self.objectives if one.probed is probed and one.covers_target(target))

    def _of_target(self, target: str) -> list[Page]:
        keys = (STATE_KEY + target, PROBED_STATE_KEY + target)
        return [self._pages[key] for key in keys if key in self._pages]

    def resume(self, target: str) -> None:
        """The target is read by another line from now on, whose epochs begin anew: its windows go on."""
        for page in self._of_target(target):
            page.track.resume()

    def forget(self, target: str) -> None:
        """A target that left the configuration."""
        self._joins.pop(target, None)
        for key in (STATE_KEY, PROBED_STATE_KEY):
            self._pages.pop(key + target, None)

    def saved(self) -> dict[str, bytes]:
        """The state of all targets, for a store; independent of what is fed afterwards."""
        return {key: freeze(page.track) for key, page in self._pages.items() if not page.track.ring.empty}

    def findings(self, target: str) -> list[Finding]:
        """What can't be judged on a target, or only roughly, and why."""
        return [one for page in self._of_target(target) for one in _findings(page.track)]


def _target_of(key: str) -> str:
    return key.partition("/")[2]


def _findings(track: Track) -> Iterator[Finding]:
    for account in track.accounts.values():
        name = account.objective.name + (f" on {account.model}" if account.model else "")
        if account.status is Status.NOT_MEASURABLE:
            yield Finding(Level.WARNING, name, "not_measurable", account.reason)
        elif account.status is Status.ESTIMATED:
            yield Finding(Level.NOTE, name, "estimated", "judged by an estimate, not by a count of events")
        yield from _bound_findings(track, account)
    if track.refused:
        yield Finding(
            Level.WARNING,
            "objectives",
            "too_many",
            _too_many(track),
        )


def _too_many(track: Track) -> str:
    return (
        f"{track.refused} pairs of an objective and a model are not judged: at most {MOST_ACCOUNTS} are, and a"
        " model that is gone makes room after 10 minutes. Restrict `models` of the objectives"
    )


def _bound_findings(track: Track, account: Account) -> Iterator[Finding]:
    counts = account.counts
    between = (counts.strict - counts.lenient) / counts.events if counts.events >= ENOUGH_EVENTS else None
    for signal in dict.fromkeys(name for name, _ in account.objective.terms):
        for series in track.layout.by_signal.get(signal, ()):
            if series.label("model_name") == account.model and account.judged:
                share: Sequence[Finding] = check_against_bounds(
                    account.objective,
                    series.bounds,
                    signal=signal,
                    between=None if account.objective.signal == GOODPUT else between,
                )
                yield from share
                break
