"""What can be wrong with a page."""

from __future__ import annotations

from dataclasses import dataclass

MAX_SHOWN = 80


def shown(raw: bytes) -> str:
    """A page's bytes made fit for a message: printable, one line, short."""
    text = raw[: MAX_SHOWN + 1].decode("utf-8", "replace")
    text = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


class PageError(Exception):
    """The whole page can't be used. `result` is one of schema.SCRAPE_RESULTS."""

    def __init__(self, result: str, detail: str) -> None:
        super().__init__(detail)
        self.result = result
        self.detail = detail


@dataclass(frozen=True, slots=True)
class BadLine:
    """A malformed line: it costs `family` (empty when it can't be told), and nothing else."""

    number: int  # counted from 1
    family: str
    reason: str
