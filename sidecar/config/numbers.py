"""Forms of numbers: plain ones, durations, sizes, shares; each in a range."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sidecar.config import quantities
from sidecar.config.forms import Form
from sidecar.config.problem import Mistake


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Form):
    """A number in a range; `above` and `below` exclude the bound. `bool` is none."""

    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    below: bool = False

    def number(self, value: Any) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15:
            return float(value)
        raise Mistake("isn't a number", "write it like 2.5")

    def read(self, value: Any) -> float:
        number = self.number(value)
        if number < self.low or (self.above and number == self.low):
            raise Mistake(
                "is too small", f"write {'more than' if self.above else 'at least'} {self.write(self.low)}"
            )
        if number > self.high or (self.below and number == self.high):
            raise Mistake(
                "is too large", f"write {'less than' if self.below else 'at most'} {self.write(self.high)}"
            )
        return number

    def within(self, noun: str) -> str:
        low = f"{'above' if self.above else 'from'} {self.write(self.low)}" if self.low > -math.inf else ""
        high = f"{'below' if self.below else 'to'} {self.write(self.high)}" if self.high < math.inf else ""
        return ", ".join(part for part in (noun, " ".join(filter(None, (low, high)))) if part)

    def describe(self) -> str:
        return self.within("number")


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(Number):
    """A whole number."""

    def number(self, value: Any) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise Mistake("isn't a whole number", "write digits only")

    def describe(self) -> str:
        return self.within("whole number")


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration(Number):
    """Seconds."""

    def number(self, value: Any) -> float:
        return float(_quantity(value, quantities.parse_duration, "a duration", "800ms, 5m or 1h30m"))

    def write(self, value: float) -> str:
        return quantities.write_duration(value)

    def describe(self) -> str:
        return self.within("duration")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size(Number):
    """Bytes."""

    def number(self, value: Any) -> int:
        return int(_quantity(value, quantities.parse_size, "a size", "32MiB or 64kB"))

    def write(self, value: float) -> str:
        return quantities.write_size(int(value))

    def describe(self) -> str:
        return self.within("size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Share(Number):
    """A ratio, 0 to 1."""

    low: float = 0.0
    high: float = 1.0

    def read(self, value: Any) -> float:
        if isinstance(value, int | float) and 1 < value < 100:
            raise Mistake("is more than the whole", f"if it is a percentage, write {value:g}%")
        return float(Number.read(self, value))

    def number(self, value: Any) -> float:
        return float(_quantity(value, quantities.parse_share, "a share", "95% or 0.95"))

    def write(self, value: float) -> str:
        return quantities.write_share(value)

    def describe(self) -> str:
        return self.within("share")


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOfDurations(Form):
    """A duration out of a few."""

    seconds: tuple[float, ...]

    def read(self, value: Any) -> float:
        number = Duration(low=0).read(value)
        if number in self.seconds:
            return float(number)
        raise Mistake(
            "isn't a period that is known", f"write one of {', '.join(map(self.write, self.seconds))}"
        )

    def write(self, value: float) -> str:
        return quantities.write_duration(value)

    def describe(self) -> str:
        return "one of " + ", ".join(f"`{self.write(one)}`" for one in self.seconds)


def _quantity(value: Any, parse: Callable[[str], float], what: str, like: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15:
        return value
    try:
        if isinstance(value, str):
            return parse(value.strip())
    except ValueError:
        pass
    raise Mistake(f"isn't {what}", f"write it like {like}")
