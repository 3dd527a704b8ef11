"""The runtimes that the sidecar knows, and which one a page comes from."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sidecar.runtimes.adapter import Adapter, builtin_mapping
from sidecar.runtimes.mapping import Mapping
from sidecar.runtimes.tensorrt_llm.adapter import TensorRtLlm
from sidecar.runtimes.triton.adapter import Triton
from sidecar.runtimes.vllm.adapter import Vllm

ADAPTERS: dict[str, Callable[[Mapping | None], Adapter]] = {
    "vllm": Vllm,
    "triton": Triton,
    "tensorrt_llm": TensorRtLlm,
}

#: Two runtimes whose confidences are closer than this are not told apart.
AMBIGUOUS_BELOW = 0.1


@dataclass(frozen=True, slots=True)
class Detection:
    """What a page says of its runtime; `runtime` is empty when it can't be told."""

    runtime: str
    confidence: float
    reason: str


class Detector:
    """Tells the runtime by the families of a page; user mappings have fingerprints too."""

    def __init__(self, mappings: dict[str, Mapping]) -> None:
        self._prints = [
            (runtime, re.compile(one.family), one.confidence, one.reason, mapping)
            for runtime, mapping in mappings.items()
            for one in mapping.fingerprints
        ]

    def detect(self, families: dict[str, str]) -> Detection:
        scores: dict[str, tuple[float, str]] = {}
        for runtime, pattern, confidence, reason, mapping in self._prints:
            if confidence <= scores.get(runtime, (0.0, ""))[0]:
                continue
            hit = next((name for name in families if pattern.fullmatch(mapping.canonical(name))), None)
            if hit is not None:
                scores[runtime] = (confidence, f"{reason}: {hit}")
        if not scores:
            return Detection("", 0.0, "no family of a known runtime is on the page")
        (first, best), *rest = sorted(scores.items(), key=lambda item: -item[1][0])
        if rest and best[0] - rest[0][1][0] < AMBIGUOUS_BELOW:
            names = " or ".join(
                [first, *(name for name, score in rest if best[0] - score[0] < AMBIGUOUS_BELOW)]
            )
            return Detection("", best[0], f"ambiguous: {names}; set `runtime` for this target")
        return Detection(first, best[0], best[1])


class Registry:
    """Adapters and mappings in force: the built-in ones with a user's in front of them."""

    def __init__(self, user: dict[str, Mapping] | None = None) -> None:
        self._user = dict(user or {})
        self.detector = Detector({name: self.mapping(name) for name in self.names})

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*ADAPTERS, *self._user)))

    def mapping(self, runtime: str) -> Mapping:
        """Raises KeyError for a runtime that nobody knows."""
        user = self._user.get(runtime)
        if runtime not in ADAPTERS:
            return self._user[runtime]
        own = builtin_mapping(runtime)
        return own if user is None else own.overridden(user)

    def adapter(self, runtime: str) -> Adapter:
        """A new adapter for one target. Raises KeyError for a runtime that nobody knows."""
        mapping = self.mapping(runtime)
        make = ADAPTERS.get(runtime, Adapter)
        return make(mapping)
