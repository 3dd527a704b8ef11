"""The runtimes that the sidecar knows, and which one a page comes from."""

from __future__ import annotations

from collections.abc import Callable

from sidecar.runtimes.adapter import Adapter, builtin_mapping
from sidecar.runtimes.detection import Detection, Detector
from sidecar.runtimes.dynamo.adapter import Dynamo
from sidecar.runtimes.mapping import Mapping
from sidecar.runtimes.nim.adapter import Nim
from sidecar.runtimes.tensorrt_llm.adapter import TensorRtLlm
from sidecar.runtimes.triton.adapter import Triton
from sidecar.runtimes.vllm.adapter import Vllm

ADAPTERS: dict[str, Callable[[Mapping | None], Adapter]] = {
    "vllm": Vllm,
    "triton": Triton,
    "tensorrt_llm": TensorRtLlm,
    "nim": Nim,
    "dynamo": Dynamo,
}

__all__ = ["ADAPTERS", "Detection", "Detector", "Registry"]


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

    def adapter(self, runtime: str, *, draining: bool = False) -> Adapter:
        """A new adapter for one target. Raises KeyError for a runtime that nobody knows."""
        mapping = self.mapping(runtime)
        made = ADAPTERS.get(runtime, Adapter)(mapping)
        made.draining = draining
        return made
