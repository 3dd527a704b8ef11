"""Arrivals and lengths: Poisson with a rate that changes over time, and answers of random length.

Everything is drawn from one seeded generator, so the same traffic is the same requests at the same moments.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import cos, exp, inf, log, pi
from random import Random
from typing import Protocol

from sidecar.simulator.request import Request


class Rate(Protocol):
    """Requests a second at a moment, never above `peak`."""

    @property
    def peak(self) -> float: ...

    def at(self, seconds: float) -> float: ...


@dataclass(frozen=True, slots=True)
class Steady:
    """The same rate for ever."""

    per_second: float

    @property
    def peak(self) -> float:
        return self.per_second

    def at(self, seconds: float) -> float:
        return self.per_second


@dataclass(frozen=True, slots=True)
class Steps:
    """Straight lines between (second, rate) points; the last rate holds on. Two points at one second are a
    jump."""

    points: tuple[tuple[float, float], ...]

    @property
    def peak(self) -> float:
        return max(rate for _, rate in self.points)

    def at(self, seconds: float) -> float:
        after = bisect_right(self.points, (seconds, inf))
        if after == 0:
            return self.points[0][1]
        if after == len(self.points):
            return self.points[-1][1]
        (start, low), (end, high) = self.points[after - 1], self.points[after]
        return low + (high - low) * (seconds - start) / (end - start)


@dataclass(frozen=True, slots=True)
class Bursts:
    """`base` requests a second, and `peak` for the first `seconds` of each period of `every` seconds."""

    base: float
    peak: float
    every: float
    seconds: float

    def at(self, seconds: float) -> float:
        return self.peak if seconds % self.every < self.seconds else self.base


@dataclass(frozen=True, slots=True)
class Daily:
    """A cosine between `low` (at second 0: night) and `peak` with a period of a day, or of `period`
    seconds."""

    low: float
    peak: float
    period: float = 86400.0

    def at(self, seconds: float) -> float:
        return self.low + (self.peak - self.low) * (1 - cos(2 * pi * seconds / self.period)) / 2


def calm_overload_calm(seconds: float, calm: float, overload: float) -> Steps:
    """A quarter calm, a short climb, overload until the middle, and calm again for the rest, so that the
    queue that built up can drain."""
    return Steps(
        (
            (0.0, calm),
            (0.2 * seconds, calm),
            (0.3 * seconds, overload),
            (0.5 * seconds, overload),
            (0.55 * seconds, calm),
            (seconds, calm),
        )
    )


@dataclass(frozen=True, slots=True)
class Lengths:
    """Log-normal token counts with a median and a spread (sigma of the logarithm), cut to [low, high].

    A spread of 0 gives the median always.
    """

    median: float
    spread: float = 0.0
    low: int = 1
    high: int = 100_000

    def draw(self, random: Random) -> int:
        value = self.median if self.spread == 0 else exp(random.normalvariate(log(self.median), self.spread))
        return max(self.low, min(self.high, round(value)))


@dataclass(frozen=True, slots=True)
class Shape:
    """What the requests look like.

    A share `prefixed` of them begins with one of `prefixes` shared prompts of `prefix_tokens` (which come
    on top of the drawn prompt length). A share `impatient` gives up after `patience` seconds.
    """

    prompt: Lengths = field(default_factory=lambda: Lengths(350, 0.8, high=4000))
    output: Lengths = field(default_factory=lambda: Lengths(160, 0.7, high=1500))
    max_tokens: int | None = 1024
    prefixed: float = 0.0
    prefixes: int = 4
    prefix_tokens: int = 512
    impatient: float = 0.0
    patience: float = 20.0

    def draw(self, random: Random) -> tuple[Request, float | None]:
        """A request and the seconds after which its client gives up, None for never."""
        prompt, output = self.prompt.draw(random), self.output.draw(random)
        request = Request(prompt, output, self.max_tokens)
        if random.random() < self.prefixed:
            request.prefix_key = random.randrange(self.prefixes)
            request.prefix_tokens = self.prefix_tokens
            request.prompt_tokens += self.prefix_tokens
        return request, self.patience if random.random() < self.impatient else None


@dataclass(frozen=True, slots=True)
class Arrival:
    seconds: float
    request: Request
    patience: float | None


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests of a shape at a rate from second 0 to `until`. `changes` are (second, shape) in order of
    time: from then on the requests look like that."""

    rate: Rate
    shape: Shape = field(default_factory=Shape)
    seed: int = 0
    until: float = inf
    changes: tuple[tuple[float, Shape], ...] = ()

    def shape_at(self, seconds: float) -> Shape:
        return next((shape for since, shape in reversed(self.changes) if since <= seconds), self.shape)

    def arrivals(self) -> Iterator[Arrival]:
        """In order of time; a Poisson process thinned to the rate."""
        random = Random(self.seed)
        peak, now = self.rate.peak, 0.0
        while peak > 0:
            now += random.expovariate(peak)
            if now >= self.until:
                return
            if random.random() * peak < self.rate.at(now):
                request, patience = self.shape_at(now).draw(random)
                yield Arrival(now, request, patience)
