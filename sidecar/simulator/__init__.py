"""A continuous-batching inference engine that really queues, prefills, decodes, fills its KV cache, preempts.

It knows nothing of the rest of the sidecar. From the ground up:

`model`       what an engine is: its size and its timing
`kv`          the pool of KV blocks with its prefix cache
`request`     one request, with its truth: when it arrived, started, answered, ended, and how
`telemetry`   what was counted, of no runtime in particular: pages are rendered from it
`scheduler`   who is in the batch
`engine`      one engine (one rank) in time, exact whatever the moments at which it is looked at
`replica`     one server: its ranks, its front end, its restarts
`traffic`     arrivals and lengths
`simulation`  traffic through a service in simulated time
`fleet`       a service of several replicas: router, cold starts, drains
`live`        a simulation in real time, with real clients too
`page`        the protocol of a runtime's page, and its lines
`vllm_*`      vLLM's own page, by version and dialect
`openai`      the bodies of the completions API
`server`      vLLM's HTTP endpoints on a live replica
`demo`        the show: from calm to overload and back

Another runtime is a module with a `Page` (renders a `Replica`: its telemetry, its front end, its facts) and, if
it is to be scraped, an HTTP server on `Live`. Bounds that no page had so far are added in `telemetry`.
"""

from __future__ import annotations

from sidecar.simulator.engine import Engine
from sidecar.simulator.model import EngineConfig, Timing
from sidecar.simulator.replica import Replica, ReplicaConfig
from sidecar.simulator.request import Outcome, Request
from sidecar.simulator.simulation import Simulation
from sidecar.simulator.telemetry import FrontEnd, Histogram, Telemetry

__all__ = [
    "Engine",
    "EngineConfig",
    "FrontEnd",
    "Histogram",
    "Outcome",
    "Replica",
    "ReplicaConfig",
    "Request",
    "Simulation",
    "Telemetry",
    "Timing",
]
