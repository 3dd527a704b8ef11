"""The show: one replica, and traffic that goes from calm to overload and back."""

from __future__ import annotations

from sidecar.simulator.model import EngineConfig
from sidecar.simulator.replica import ReplicaConfig
from sidecar.simulator.server import SimulatedVllm
from sidecar.simulator.traffic import Lengths, Shape, Steps, Traffic, calm_overload_calm
from sidecar.simulator.vllm_page import VllmPage

DEMO_REPLICA = ReplicaConfig(
    model_name="demo/llama-8b", engine=EngineConfig(max_num_seqs=48, kv_blocks=1600, max_model_len=8192)
)
"""Full at about ten requests a second of the demo's shape; its KV cache is what overflows first."""

BEFORE = 120.0
"""Seconds that the replica has served calm traffic when the show begins: a young one asks for little yet."""


def demo_traffic(seconds: float, seed: int = 7, *, before: float = 0.0) -> Traffic:
    """A show of `seconds`: 3 requests a second, a climb to 21, and back; calm for some time before."""
    shape = Shape(
        prompt=Lengths(300, 0.7, high=3000),
        output=Lengths(150, 0.6, high=800),
        prefixed=0.5,
        prefix_tokens=256,
        impatient=0.15,
        patience=12.0,
    )
    show = calm_overload_calm(seconds, calm=3.0, overload=21.0)
    return Traffic(Steps(tuple((before + at, rate) for at, rate in show.points)), shape, seed)


def demo_server(seconds: float, *, port: int = 0, version: str = "0.32.0", seed: int = 7) -> SimulatedVllm:
    """The server of the show, to be entered with `async with`. The show begins when it is made."""
    traffic = demo_traffic(seconds, seed, before=BEFORE)
    return SimulatedVllm(DEMO_REPLICA, traffic, page=VllmPage(version), port=port, lived=BEFORE)
