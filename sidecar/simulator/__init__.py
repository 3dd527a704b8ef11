"""A continuous-batching inference engine that really queues, prefills, decodes, fills its KV cache and
preempts.

It knows nothing of the rest of the sidecar. From the ground up:

`model`       what an engine is: its size and its timing
`kv`          the pool of KV blocks with its prefix cache
`request`     one request, with its truth: when it arrived, started, answered, ended, and how
`telemetry`   what was counted, of no runtime in particular: pages are rendered from it
`engine`      one engine (one rank), discrete-event, exact whatever the times at which it is looked at
`replica`     one server: its ranks, its front end, its restarts
`traffic`     arrivals and lengths
`simulation`  traffic through a replica in simulated time; `fleet` through several
`live`        the same in real time; `server` puts a runtime's HTTP endpoints on it
`vllm_*`      vLLM's own page, by version and dialect
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
