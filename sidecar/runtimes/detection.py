"""Which runtime answers, by fingerprints: families of its page and what its cheap endpoints say."""

from __future__ import annotations

import re
from collections.abc import Mapping as Table
from dataclasses import dataclass
from typing import Any

from sidecar.runtimes.adapter import Answer, Endpoint
from sidecar.runtimes.mapping import Fingerprint, Mapping

#: Two runtimes whose confidences are closer than this are not told apart.
AMBIGUOUS_BELOW = 0.1

#: Weaker evidence than this is told, and not acted upon.
SURE_ENOUGH = 0.6

#: Bytes of a body that a fingerprint looks at.
MAX_LOOKED_AT = 64 * 1024

#: What to ask of a target whose runtime isn't known yet: pages where they may be, and endpoints that tell.
PROBES: tuple[Endpoint, ...] = (
    Endpoint("metrics", "/metrics", page=True),
    Endpoint("v1_metrics", "/v1/metrics", page=True),
    Endpoint("prometheus", "/prometheus/metrics", page=True),
    Endpoint("version", "/version", api=True, every=10.0),
    Endpoint("models", "/v1/models", api=True, every=10.0),
    Endpoint("v2", "/v2", api=True, every=10.0),
    Endpoint("release", "/v1/version", api=True, every=10.0),
    Endpoint("metadata", "/v1/metadata", api=True, every=10.0),
)


@dataclass(frozen=True, slots=True)
class Detection:
    """The runtime, empty when it can't be told, and the engine that shows through it, if any."""

    runtime: str
    confidence: float
    reason: str
    engine: str = ""


class Detector:
    """Tells the runtime by its mapping's fingerprints; user mappings have fingerprints too."""

    def __init__(self, mappings: Table[str, Mapping]) -> None:
        self._mappings = dict(mappings)
        self._prints = [
            (runtime, one, re.compile(one.family or one.body), mapping)
            for runtime, mapping in mappings.items()
            for one in mapping.fingerprints
        ]

    def detect(self, families: Table[str, str], answers: Table[str, Answer] | None = None) -> Detection:
        """What the families of a page and the answers of endpoints (by name, see PROBES) tell together."""
        scores: dict[str, tuple[float, str]] = {}
        for runtime, one, pattern, mapping in self._prints:
            if one.confidence <= scores.get(runtime, (0.0, ""))[0]:
                continue
            if one.family:
                hit = next((name for name in families if pattern.fullmatch(mapping.canonical(name))), None)
                if hit is not None:
                    scores[runtime] = (one.confidence, f"{one.reason}: {hit}")
            elif _fits(one, pattern, (answers or {}).get(one.endpoint)):
                scores[runtime] = (one.confidence, one.reason)
        return self._judge(scores)

    def _judge(self, scores: dict[str, tuple[float, str]]) -> Detection:
        if not scores:
            return Detection("", 0.0, "no family of a known runtime is on the page")
        (first, best), *rest = sorted(self._outer(scores).items(), key=lambda item: -item[1][0])
        close = [name for name, score in rest if best[0] - score[0] < AMBIGUOUS_BELOW]
        if close:
            names = " or ".join([first, *close])
            return Detection("", best[0], f"ambiguous: {names}; set `runtime` for this target")
        if best[0] < SURE_ENOUGH:
            return Detection("", best[0], f"perhaps {first} ({best[1]}); set `runtime` for this target")
        inside = {name: scores[name][0] for name in self._mappings[first].layers if name in scores}
        engine = max(inside, key=inside.__getitem__) if inside else ""
        reason = f"{best[1]}; inside runs {engine} ({scores[engine][1]})" if engine else best[1]
        return Detection(first, best[0], reason, engine)

    def _outer(self, scores: dict[str, tuple[float, str]]) -> dict[str, tuple[float, str]]:
        """Without the engines that show through another product: it is at least as sure as they are, or
        nearly so."""
        wrapped = {
            inner
            for outer, (sure, _) in scores.items()
            for inner in self._mappings[outer].layers
            if inner in scores and sure > scores[inner][0] - AMBIGUOUS_BELOW
        }
        return {name: score for name, score in scores.items() if name not in wrapped}


def _fits(one: Fingerprint, pattern: re.Pattern[str], answer: Answer | None) -> bool:
    if answer is None or not answer.ok:
        return False
    if one.body:
        return pattern.match(answer.body[:MAX_LOOKED_AT].decode("utf-8", "replace")) is not None
    body = answer.json()
    return all(
        (value := _at(body, path)) is not None and re.fullmatch(wanted, str(value), re.DOTALL) is not None
        for path, wanted in one.holds.items()
    )


def _at(body: Any, path: str) -> Any:
    """The value at a dotted path; numbers count places of lists."""
    for key in path.split("."):
        if isinstance(body, list) and key.isdecimal() and int(key) < len(body):
            body = body[int(key)]
        elif isinstance(body, dict):
            body = body.get(key)
        else:
            return None
    return body
