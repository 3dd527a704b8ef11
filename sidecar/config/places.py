"""Where runtimes usually listen on localhost: what is tried when the config names no target."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """One address to try. `api_url` is given where metrics and API have two ports."""

    url: str
    usual: str  # who is usually found there
    api_url: str | None = None


def _at(port: int, usual: str, api: int | None = None) -> Place:
    return Place(f"http://127.0.0.1:{port}", usual, f"http://127.0.0.1:{api}" if api else None)


PLACES: tuple[Place, ...] = (
    _at(8000, "vLLM, NIM, TensorRT-LLM, Dynamo"),
    _at(8002, "Triton", api=8000),
    _at(30000, "SGLang"),
    _at(8080, "TGI, KServe, llama.cpp, Ray Serve"),
    _at(3000, "BentoML, TGI"),
    _at(9000, "Triton, OpenVINO or MLServer under another port"),
)
