"""Durations, sizes and shares as people write them, and back. Exact: what is written reads back equal."""

from __future__ import annotations

import re
from decimal import Decimal

_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,400})?"
_PLAIN = re.compile(_NUMBER)

_SECONDS = {
    "w": Decimal(604_800),
    "d": Decimal(86_400),
    "h": Decimal(3_600),
    "m": Decimal(60),
    "s": Decimal(1),
    "ms": Decimal("0.001"),
    "us": Decimal("0.000001"),
    "ns": Decimal("0.000000001"),
}
_DURATION = re.compile("".join(rf"(?:({_NUMBER}){unit})?" for unit in _SECONDS))

_BYTES = {
    "": 1,
    "B": 1,
    **{f"{prefix}{tail}": 1024**n for n, prefix in enumerate("KMGT", 1) for tail in ("iB", "i")},
    **{f"{prefix}{tail}": 1000**n for n, prefix in enumerate("kMGT", 1) for tail in ("B", "")},
    "KB": 1000,
    "K": 1000,
}
_SIZE = re.compile(rf"({_NUMBER}) ?([A-Za-z]*)")
_SHARE = re.compile(rf"({_NUMBER}) ?%")


def parse_duration(text: str) -> float:
    """Seconds from `800ms`, `5m`, `1h30m`, or a plain number of seconds. Raises ValueError."""
    if _PLAIN.fullmatch(text):
        return float(text)
    found = _DURATION.fullmatch(text)
    if found is None or not text:
        raise ValueError("not a duration; write it like 800ms, 5s or 1h30m")
    parts = zip(found.groups(), _SECONDS.values(), strict=True)
    return float(sum((Decimal(number) * unit for number, unit in parts if number), Decimal(0)))


def write_duration(seconds: float) -> str:
    """The shortest of the usual forms that reads back as exactly `seconds`."""
    exact = Decimal(repr(seconds))
    if seconds and seconds == int(seconds):
        return _whole_seconds(int(seconds))
    for unit in ("s", "ms", "us", "ns"):
        number = exact / _SECONDS[unit]
        if number == number.to_integral_value() or (unit == "ns" or abs(number) >= 1):
            return f"{number.normalize():f}{unit}"
    return f"{seconds!r}s"


def _whole_seconds(seconds: int) -> str:
    written = ""
    for unit in ("d", "h", "m", "s"):
        number, seconds = divmod(seconds, int(_SECONDS[unit]))
        written += f"{number}{unit}" if number else ""
    return written


def parse_size(text: str) -> int:
    """Bytes from `32MiB`, `64kB`, `1Gi`, or a plain number of bytes. Raises ValueError."""
    found = _SIZE.fullmatch(text)
    if found is None or found[2] not in _BYTES:
        raise ValueError("not a size")
    size = Decimal(found[1]) * _BYTES[found[2]]
    if size != int(size):
        raise ValueError("not a whole number of bytes")
    return int(size)


def write_size(size: int) -> str:
    """In the largest binary unit that divides it."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size and size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]}{unit}"
    return f"{size}B"


def parse_share(text: str) -> float:
    """A ratio from `99.9%` or `0.999`. Raises ValueError."""
    found = _SHARE.fullmatch(text)
    if found:
        return float(Decimal(found[1]) / 100)
    if _PLAIN.fullmatch(text):
        return float(text)
    raise ValueError("not a share")


def write_share(ratio: float) -> str:
    """As a percentage."""
    return f"{(Decimal(repr(ratio)) * 100).normalize():f}%"
