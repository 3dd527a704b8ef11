"""Which format and which encoding a scraper asked for (RFC 9110, section 12)."""

from __future__ import annotations

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_TEXT_RANGES = ("text/plain", "text/*", "*/*")


def wants_openmetrics(accept: str) -> bool:
    """Whether `Accept` puts OpenMetrics 1.x before the text format; of equals the first named wins.

    Who accepts neither gets text: a scraper that says nonsense is better served than refused.
    """
    openmetrics, text = 0.0, 0.0
    for name, parameters in _items(accept):
        quality = _quality(parameters)
        if name == "application/openmetrics-text" and _speaks_openmetrics(parameters):
            if quality > text:
                openmetrics = max(openmetrics, quality)
        elif name in _TEXT_RANGES and quality > openmetrics:
            text = max(text, quality)
    return openmetrics > text


def wants_gzip(accept_encoding: str) -> bool:
    """Whether `Accept-Encoding` allows gzip and doesn't put identity before it."""
    qualities = {name: _quality(parameters) for name, parameters in _items(accept_encoding)}
    gzip = qualities.get("gzip", qualities.get("*", 0.0))
    return gzip > 0.0 and gzip >= qualities.get("identity", 0.0)


def _speaks_openmetrics(parameters: dict[str, str]) -> bool:
    version = parameters.get("version", "")
    return not version or version.split(".")[0] == "1"


def _quality(parameters: dict[str, str]) -> float:
    """The q of an item: 1 when it isn't there, 0 when it can't be read."""
    try:
        quality = float(parameters.get("q", "1"))
    except ValueError:
        return 0.0
    return quality if 0.0 <= quality <= 1.0 else 0.0


def _items(header: str) -> list[tuple[str, dict[str, str]]]:
    items = []
    for item in header.split(","):
        name, *rest = (part.strip() for part in item.split(";"))
        pairs = (part.partition("=") for part in rest)
        parameters = {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs}
        if name:
            items.append((name.lower(), parameters))
    return items
