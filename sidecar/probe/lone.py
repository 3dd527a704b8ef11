"""The gap between two tokens of a lone request, from probes that had the engine to themselves."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import nan
from statistics import median

from sidecar.probe.stream import Outcome
from sidecar.snapshot import Snapshot

#: Gaps that a value needs in all, as any mean of gaps does, and that one probe needs to be counted.
ENOUGH = 20
_FEW = 4
#: Probes that the median is taken of.
_KEPT = 5
#: Tokens that the first probes of an idle engine ask for, so that one of them is enough; and how many do so.
FIRST_TOKENS = 24
_FIRST_TRIES = 3


@dataclass(frozen=True, slots=True)
class _Load:
    """What an engine has to do, over all models. NaN: not told."""

    running: float
    waiting: float
    generated: float

    @classmethod
    def of(cls, snapshot: Snapshot) -> _Load:
        return cls(
            *(
                _total(snapshot, name)
                for name in ("requests_running", "requests_waiting", "generation_tokens_total")
            )
        )


class LoneGap:
    """Watches a target's snapshots around its probes.

    A probe counts when the page says that nothing but itself ran and nothing waited, before it, on every poll
    while it went on and on the first one after it, that the tokens that came out are its own (more are
    somebody else's, fewer say that another replica has answered), and when its stream was steady: a front end
    that can't keep up holds the first tokens back and sends them in haste, and any figure of such gaps may be
    far too short. Each gives the median of its gaps; the value is the median over the last probes. One that is
    too long (the GPU had clocked down) costs little, one that is too short costs replicas.
    """

    def __init__(self) -> None:
        self._medians: deque[tuple[float, int]] = deque(maxlen=_KEPT)
        self._before: _Load | None = None  # of a probe that has had the engine to itself so far
        self._outcome: Outcome | None = None  # of one that ended, until the next poll vouches for it
        self._tries = 0

    @property
    def value(self) -> float | None:
        """Seconds; None while too few gaps were seen."""
        if sum(gaps for _, gaps in self._medians) < ENOUGH:
            return None
        return median(gap for gap, _ in self._medians)

    def tokens(self, usual: int) -> int:
        """How many tokens a probe that begins now shall ask for."""
        if self._before is None or self.value is not None or self._tries >= _FIRST_TRIES:
            return usual
        self._tries += 1
        return max(usual, FIRST_TOKENS)

    def forget(self) -> None:
        """Another process answers now."""
        self._medians.clear()
        self._before = self._outcome = None
        self._tries = 0

    def begin(self, snapshot: Snapshot) -> None:
        """A probe is sent right after this snapshot."""
        load = _Load.of(snapshot)
        self._outcome = None
        self._before = load if load.running == 0 and load.waiting == 0 else None

    def end(self, outcome: Outcome) -> None:
        """The probe has ended."""
        if self._before is not None and outcome.ok and _steady(outcome.gaps):
            self._outcome = outcome
        else:
            self._before = None

    def watch(self, snapshot: Snapshot) -> bool:
        """Look at each snapshot. True when the value is another one now."""
        before, outcome = self._before, self._outcome
        if before is None:
            return False
        load = _Load.of(snapshot)
        alone = snapshot.up and load.running <= 1 and load.waiting == 0
        if alone and outcome is None:
            return False
        self._before = self._outcome = None
        if not alone or outcome is None:
            return False
        if abs(load.generated - before.generated - outcome.generated) > 1:  # never, where none are told
            return False
        self._medians.append((median(outcome.gaps), len(outcome.gaps)))
        return self.value is not None


def _steady(gaps: tuple[float, ...]) -> bool:
    """Whether three quarters of the gaps are within a factor of 1.5 of their median."""
    if len(gaps) < _FEW:
        return False
    middle = median(gaps)
    return 4 * sum(middle / 1.5 <= gap <= middle * 1.5 for gap in gaps) >= 3 * len(gaps)


def _total(snapshot: Snapshot, signal: str) -> float:
    series = snapshot.data.layout.by_signal.get(signal, ())
    return sum(snapshot.data.values[one.start] for one in series) if series else nan
