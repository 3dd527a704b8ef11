"""One target's events over time: increases of its counters, its restarts, its ring."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from math import inf, nan

from sidecar.slo.account import Account, Status
from sidecar.slo.objective import GOODPUT, Objective
from sidecar.slo.ring import Ring
from sidecar.slo.sources import NOTHING, Measure, Source, measure, models_of
from sidecar.snapshot import EMPTY_LAYOUT, Labels, Layout, Provenance, Snapshot, is_absent

#: Objectives × models of one target; more are refused and told.
MOST_ACCOUNTS = 512

#: Where more are wanted, those make room whose model has been gone for this long (seconds), the longest first.
GONE = 600.0

#: Ended ones that are known to have been there.
MOST_ENDED = 8 * MOST_ACCOUNTS

#: Start times of one process may differ by this much, where a runtime computes them (seconds).
SAME_START = 5.0


#: Objective, model, term of the objective, series.
Key = tuple[str, str, int, tuple[str, Labels]]


@dataclass(frozen=True, slots=True)
class Reading:
    """A source in use, and the account that it feeds."""

    source: Source
    account: Account

    @property
    def key(self) -> Key:
        return (*self.account.key, self.source.part, self.source.series)


@dataclass(slots=True)
class Track:
    """A target. Counts are only ever increased, by what the target's counters grew.

    A restart is a matter of the whole target: after it every counter starts from 0, whatever its new value
    is, so that total and bad can't come apart. It is told by the snapshot's epoch or by a counter that fell;
    across a restart of the sidecar, which epochs don't outlive, also by the process's start time.
    """

    objectives: tuple[Objective, ...]
    ring: Ring = field(default_factory=Ring)
    accounts: dict[tuple[str, str], Account] = field(default_factory=dict)
    #: Accounts that could ever be measured; each has two columns of the ring.
    columns: list[Account] = field(default_factory=list)
    #: Accounts that are watched from this snapshot on.
    fresh: list[Account] = field(default_factory=list)
    #: Raw numbers of series that an earlier layout had: (cut, last).
    remembered: dict[Key, tuple[tuple[float, ...], tuple[float, float, float]]] = field(default_factory=dict)
    #: Accounts that ended in this life of the runtime: a model that is back didn't begin at 0.
    ended: dict[tuple[str, str], None] = field(default_factory=dict)
    epoch: int | None = None
    started: float = nan
    layout: Layout = EMPTY_LAYOUT
    provenance: tuple[Provenance, ...] = ()
    readings: list[Reading] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    last: list[float] = field(default_factory=list)
    refused: int = 0
    #: When an account whose model is gone ends, or makes room for one that is refused.
    due: float = inf
    #: Grows when an account comes or its status changes.
    revision: int = 0
    #: mono + this = Unix time, of the last snapshot.
    clock_offset: float = nan
    #: Restored, and not fed since: the ring's times are Unix times.
    unix_times: bool = False

    def feed(self, snapshot: Snapshot) -> None:
        """Count what happened since the last snapshot. A snapshot without data counts nothing."""
        self.clock_offset = snapshot.time - snapshot.mono
        if self.unix_times:
            self._rebase(snapshot)
        if not snapshot.up or not snapshot.data.layout.series:
            return
        if snapshot.rebased:
            self._rebased()
        restarted = self._restarted(snapshot)
        told = snapshot.data.layout is self.layout and snapshot.provenance == self.provenance
        if not told or snapshot.mono >= self.due:
            self._compile(snapshot, restarted)
        increases, restarted = self._increases(snapshot.data.values, restarted)
        self._apply(increases)
        now = snapshot.mono
        for account in self.columns:
            if account.objective.signal == GOODPUT:
                account.settle(now)
        if self.ring.empty or now > self.ring.newest:
            self.ring.append(now, self._row(), unbroken=not (restarted or snapshot.rebased))
        for account in self.fresh:
            account.born, account.born_seen = now, self.ring.seen
        self.fresh.clear()

    def give_column(self, account: Account) -> None:
        """A place in the ring, with no events before now."""
        account.column = 2 * len(self.columns)
        self.columns.append(account)
        self.ring.add_column()
        self.ring.add_column()

    def remember(self) -> None:
        """Keep the raw numbers by series, to go on with another layout or another process."""
        for number, reading in enumerate(self.readings):
            first = 3 * number
            events, least, most = self.last[first : first + 3]
            if not is_absent(events):
                self.remembered[reading.key] = (reading.source.cut, (events, least, most))

    def resume(self) -> None:
        """Go on with another line's snapshots: a series that it shows for the first time is no new one."""
        self.remember()
        self.layout, self.epoch = EMPTY_LAYOUT, None

    def _rebased(self) -> None:
        """The next numbers are a base: what they grew by since the last ones happened to somebody else."""
        self.remembered.clear()
        self.ended.clear()
        self.readings, self.indices, self.last = [], [], []
        self.layout, self.epoch = EMPTY_LAYOUT, None

    def _rebase(self, snapshot: Snapshot) -> None:
        """From Unix time to this process's clock; a wall clock that was set back makes nothing future."""
        self.unix_times = False
        shift = min(-self.clock_offset, snapshot.mono - self.ring.newest)
        self.ring.shift(shift)
        for account in self.columns:
            account.born += shift
            account.gone += shift

    def _restarted(self, snapshot: Snapshot) -> bool:
        started = snapshot.life.get("target_start_timestamp_seconds")
        if self.epoch is None and not snapshot.rebased:
            restarted = abs(started - self.started) > SAME_START
        else:
            restarted = self.epoch is not None and snapshot.epoch != self.epoch
        if not is_absent(started):
            self.started = started
        self.epoch = snapshot.epoch
        return restarted

    def _compile(self, snapshot: Snapshot, restarted: bool) -> None:
        """Bind the objectives to a new layout, or to the old one of which more or less can be used now; series
        that went on keep their last numbers."""
        layout, data = snapshot.data.layout, snapshot.data
        known = self.layout is EMPTY_LAYOUT or self.layout is layout or snapshot.reread
        first_sight = known and not restarted
        self.remember()
        self.layout, self.provenance = layout, snapshot.provenance
        provenance = {one.signal: one for one in snapshot.provenance}
        self.readings, self.indices, self.last, self.refused = [], [], [], 0
        served = {
            (objective.fingerprint, model): objective
            for objective in self.objectives
            for model in filter(objective.covers, models_of(layout))
        }
        self._part_with_the_gone(served.keys(), snapshot.mono)
        for (_, model), objective in served.items():
            account = self._account(objective, model)
            if account is not None:
                found = measure(objective, model, data, provenance)
                self._judge(account, found)
                for source in found.sources:
                    self._bind(Reading(source, account), first_sight)
        gone = [account for key, account in self.accounts.items() if key not in served]
        for account in gone:
            self._judge(account, Measure(Status.NO_DATA, reason="the model is not served"))
        ends = [min(one.ends, one.gone + GONE) if self.refused else one.ends for one in gone]
        self.due = min(ends, default=inf)

    def _part_with_the_gone(self, served: Set[tuple[str, str]], now: float) -> None:
        """End the accounts of models that have been gone for longer than any window reaches back; where there
        would be too many, also those that have been gone the longest."""
        gone = []
        for key, account in self.accounts.items():
            if key in served:
                account.gone = nan
            else:
                account.gone = now if is_absent(account.gone) else account.gone
                gone.append(account)
        gone.sort(key=lambda one: one.gone)
        wanted = len(self.accounts) + len(served - self.accounts.keys()) - MOST_ACCOUNTS
        room = [one for one in gone if now - one.gone >= GONE][: max(wanted, 0)]
        over = {one.key for one in (*room, *(one for one in gone if now >= one.ends))}
        if not over:
            return
        self.accounts = {key: one for key, one in self.accounts.items() if key not in over}
        self.remembered = {key: raw for key, raw in self.remembered.items() if key[:2] not in over}
        self.ended |= dict.fromkeys(over)
        for key in list(self.ended)[: max(len(self.ended) - MOST_ENDED, 0)]:
            del self.ended[key]
        kept = [one for one in self.columns if one.key not in over]
        self.ring.keep_columns([place for one in kept for place in (one.column, one.column + 1)])
        for number, account in enumerate(kept):
            account.column = 2 * number
        self.columns = kept
        self.revision += 1

    def _account(self, objective: Objective, model: str) -> Account | None:
        """The account of an objective and model, made when it is new; None when there are too many."""
        key = (objective.fingerprint, model)
        if key not in self.accounts:
            if len(self.accounts) >= MOST_ACCOUNTS:
                self.refused += 1
                return None
            self.accounts[key] = Account(objective, model)
            self.revision += 1
        return self.accounts[key]

    def _judge(self, account: Account, found: Measure) -> None:
        """Whether an account can be measured from now on; what couldn't was not watched.

        Unless its series were only gone for a while: then what they have grown by tells what happened.
        """
        if found.sources and not account.judged:
            readings = [Reading(source, account) for source in found.sources]
            bridged = all(
                one.key in self.remembered and self.remembered[one.key][0] == one.source.cut
                for one in readings
            )
            if account.column < 0:
                self.give_column(account)
                bridged = False
            if not bridged:
                self.fresh.append(account)
        if (found.status, found.reason) != (account.status, account.reason):
            account.become(found.status, found.reason)
            self.revision += 1

    def _bind(self, reading: Reading, first_sight: bool) -> None:
        source = reading.source
        cut, last = self.remembered.get(reading.key, (source.cut, (0.0, 0.0, 0.0)))
        new = not first_sight and reading.account.key not in self.ended
        if cut != source.cut or not (new or reading.key in self.remembered):
            last = (nan, nan, nan)  # nothing to subtract from: the first numbers are the base
        self.readings.append(reading)
        self.indices += (source.events, source.good_at_least, source.good_at_most)
        self.last += last

    def _increases(self, values: Sequence[float], restarted: bool) -> tuple[list[float], bool]:
        """What each number grew by, and whether the target restarted."""
        last = self.last
        current = [0.0 if index == NOTHING else values[index] for index in self.indices]
        increases = [new - old for new, old in zip(current, last, strict=True)]
        if is_absent(sum(increases)):
            for place, increase in enumerate(increases):
                if is_absent(increase):
                    if is_absent(current[place]):
                        current[place] = last[place]
                    increases[place] = 0.0
        if restarted or min(increases, default=0.0) < 0:
            self.remembered.clear()
            self.ended.clear()
            current = [0.0 if is_absent(new) else new for new in current]
            increases, restarted = list(current), True
        self.last = current
        return increases, restarted

    def _apply(self, increases: list[float]) -> None:
        for number, reading in enumerate(self.readings):
            first = 3 * number
            events = increases[first]
            if events <= 0:
                continue
            source = reading.source
            counts = reading.account.parts[source.part]
            if source.mean_limit is None:
                counts.add(events, increases[first + 1], increases[first + 2], source.fraction)
            else:
                good = events if increases[first + 1] <= source.mean_limit * events else 0.0
                counts.add(events, good, good, 0.0)

    def _row(self) -> list[float]:
        row: list[float] = []
        for account in self.columns:
            row += (
                account.earlier.events + account.counts.events,
                account.earlier.lenient + account.counts.lenient,
            )
        return row

    @property
    def unseen(self) -> list[Objective]:
        """Objectives that no model was found for so far."""
        seen = {key for key, _ in self.accounts}
        return [one for one in self.objectives if one.fingerprint not in seen]
