"""Named traffics, each with the engine that it meets.

Loads are in replicas: a rate of 3 is what three replicas sustain with 95 % of the requests inside the
objectives, by `sustained`, which `oracle.sustained_rate` measures over half an hour: in a few minutes a KV cache
that fills slowly looks as if it held. Times are seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import exp2
from typing import Any

from sidecar.autoscale.faults import Fault
from sidecar.simulator.fleet import Router, least_in_flight, round_robin
from sidecar.simulator.model import EngineConfig, Timing
from sidecar.simulator.replica import ReplicaConfig
from sidecar.simulator.traffic import Bursts, Daily, Lengths, Rate, Shape, Steady, Steps, Traffic

#: An 8B model on a large GPU: 8 ms a step, 0.12 ms a sequence, 12,000 prompt tokens a second in chunks that
#: keep a step under 50 ms, 400,000 tokens of KV cache.
ENGINE = EngineConfig(
    timing=Timing(0.008, 0.00012, 1 / 12_000),
    max_num_seqs=256,
    max_batched_tokens=384,
    kv_blocks=25_000,
    max_model_len=32_768,
)


def _lengths(prompt: float, output: float, **more: float) -> Shape:
    return Shape(
        prompt=Lengths(prompt, more.get("prompt_spread", 0.6), high=10_000),
        output=Lengths(output, more.get("output_spread", 0.5), high=6000),
        max_tokens=None,
        impatient=more.get("impatient", 0.0),
        patience=more.get("patience", 6.0),
    )


@dataclass(frozen=True, slots=True)
class Kind:
    """Requests of one shape on one engine, and the rate of them that a replica sustains."""

    shape: Shape
    sustained: float
    engine: EngineConfig = ENGINE


CHAT = Kind(_lengths(400, 250), 10.87)
LONG_PROMPTS = Kind(_lengths(2400, 250), 2.31)
LONG_OUTPUTS = Kind(_lengths(400, 1000), 4.6)
LONG_ANSWERS = Kind(_lengths(200, 2500, output_spread=0.3), 2.24)
KV_BOUND = Kind(_lengths(1200, 1500), 1.35, replace(ENGINE, kv_blocks=8000))
SLOTS_BOUND = Kind(_lengths(400, 250), 5.65, replace(ENGINE, max_num_seqs=24))
LONG_CONTEXT = Kind(_lengths(1200, 300, prompt_spread=1.0), 3.18)
IMPATIENT = Kind(_lengths(400, 250, impatient=0.25), 11.6)
LONG_CHUNKS = Kind(_lengths(400, 250), 5.38, replace(ENGINE, max_batched_tokens=1024))


def _least_in_flight() -> Router:
    return least_in_flight


@dataclass(frozen=True, slots=True)
class Scene:
    """A traffic and what meets it. `load` is in replicas; `changes` are (second, kind): from then on requests
    are of that kind, at a rate that is the same load. `event` is the moment to recover from."""

    name: str
    what: str
    load: Rate
    kind: Kind = CHAT
    seconds: float = 3600.0
    changes: tuple[tuple[float, Kind], ...] = ()
    same_rate: bool = False  # a change of kind leaves the rate, so it changes the load
    event: float | None = None
    start: int = 3
    cold_start: float = 120.0
    router: Callable[[], Router] = _least_in_flight
    gaps: bool = True
    faults: tuple[Fault, ...] = ()

    def kind_at(self, second: float) -> Kind:
        return next((kind for since, kind in reversed(self.changes) if since <= second), self.kind)

    def rate_at(self, second: float) -> float:
        """Requests a second."""
        kind = self.kind if self.same_rate else self.kind_at(second)
        return self.load.at(second) * kind.sustained

    def need_at(self, second: float) -> float:
        """Replicas that the traffic needs at that moment."""
        return self.rate_at(second) / self.kind_at(second).sustained

    def config(self) -> ReplicaConfig:
        return ReplicaConfig(model_name="simulated", engine=self.kind.engine, startup_seconds=self.cold_start)

    def traffic(self, seed: int) -> Traffic:
        return Traffic(
            _RateOf(self),
            self.kind.shape,
            seed=seed,
            until=self.seconds,
            changes=tuple((since, kind.shape) for since, kind in self.changes),
        )


@dataclass(frozen=True, slots=True)
class _RateOf:
    scene: Scene

    @property
    def peak(self) -> float:
        scene = self.scene
        kinds = [scene.kind] if scene.same_rate else [scene.kind, *(kind for _, kind in scene.changes)]
        return scene.load.peak * max(kind.sustained for kind in kinds)

    def at(self, seconds: float) -> float:
        return self.scene.rate_at(seconds)


@dataclass(frozen=True, slots=True)
class FlashCrowd:
    """`base`, and from second `at_second` on `peak` that halves every `half_life` seconds."""

    base: float
    peak: float
    at_second: float
    half_life: float = field(default=600.0)

    def at(self, seconds: float) -> float:
        if seconds < self.at_second:
            return self.base
        halvings = (seconds - self.at_second) / self.half_life
        return self.base + (self.peak - self.base) * exp2(-halvings)


_STEP = Steps(((0, 2.2), (600, 2.2), (600, 6.6), (4800, 6.6), (4800, 2.2), (7200, 2.2)))
_SHORT_STEP = Steps(((0, 2.2), (600, 2.2), (600, 6.6), (2400, 6.6), (2400, 2.2), (3600, 2.2)))


def _stepping(name: str, what: str, kind: Kind = CHAT) -> Scene:
    return Scene(name, what, _STEP, kind, seconds=7200.0, event=600.0)


def _short(name: str, what: str, kind: Kind = CHAT, **more: Any) -> Scene:
    return Scene(name, what, _SHORT_STEP, kind, event=600.0, **more)


#: The traffics that the signal was designed on.
DESIGNED = (
    _stepping("step", "three times the load at once"),
    Scene(
        "ramp",
        "slowly to three times the load",
        Steps(((0, 2.2), (600, 2.2), (4800, 6.6), (7200, 6.6))),
        seconds=7200.0,
    ),
    Scene("burst", "a burst of two minutes every ten", Bursts(2.2, 5.0, 600.0, 120.0), seconds=7200.0),
    Scene("daily", "a day in two hours", Daily(1.5, 6.0, 7200.0), seconds=7200.0),
    Scene(
        "prompts-x6",
        "prompts six times as long, at once",
        Steady(1.6),
        seconds=7200.0,
        changes=((900.0, LONG_PROMPTS),),
        same_rate=True,
        event=900.0,
    ),
    Scene(
        "outputs-x4",
        "answers four times as long, at once",
        Steady(2.2),
        seconds=7200.0,
        changes=((900.0, LONG_OUTPUTS),),
        same_rate=True,
        event=900.0,
    ),
    _stepping("kv-bound", "a step, with a KV cache for forty requests", KV_BOUND),
    _stepping("slots-bound", "a step, with 24 slots", SLOTS_BOUND),
    _stepping("long-answers", "a step, with answers of 2,500 tokens", LONG_ANSWERS),
    Scene("constant", "nothing changes", Steady(3.6), seconds=7200.0, start=5),
)

#: Held back: nothing was tuned on these.
HELD_BACK = (
    Scene("flash-crowd", "ten times the base, halving every ten minutes", FlashCrowd(0.8, 7.0, 600.0),
          event=600.0, start=2),
    Scene("long-context", "prompts from dozens to 10,000 tokens", Daily(1.5, 5.0, 3600.0), LONG_CONTEXT),
    Scene("staircase", "up and down in small stairs, routed in turn",
          Steps(((0, 2), (600, 2), (600, 3), (1200, 3), (1200, 4), (1800, 4), (1800, 5), (2400, 5), (2400, 4),
                 (3000, 4), (3000, 3), (3600, 3))), router=round_robin),
    Scene("mix-swings", "chat and long prompts change places every ten minutes", Steady(3.0),
          changes=((600.0, LONG_PROMPTS), (1200.0, CHAT), (1800.0, LONG_PROMPTS), (2400.0, CHAT),
                   (3000.0, LONG_PROMPTS)), start=4),
)  # fmt: skip

#: Where the experiment found the signal weak.
WEAK = (
    _short("long-chunks", "prefill chunks longer than the objective's threshold", LONG_CHUNKS),
    _short("no-gaps", "a runtime without an inter-token latency", gaps=False),
    Scene("no-gaps-daily", "the same, a day in an hour and a half", Daily(1.5, 6.0, 5400.0),
          seconds=5400.0, gaps=False),
    _short("impatient", "a quarter of the clients leave after six seconds", IMPATIENT),
    Scene("large", "from 8 replicas' load to 24 at once",
          Steps(((0, 8), (600, 8), (600, 24), (2400, 24))), seconds=2400.0, event=600.0, start=10),
)  # fmt: skip

#: What goes wrong.
FAULTY = (
    _short("half-blind", "half of the sidecars blind for 15 minutes",
              faults=(Fault("blind", 700.0, 1600.0, share=0.5),)),
    _short("prometheus-down", "no metrics at all for 15 minutes, from before the step",
              faults=(Fault("no_metrics", 500.0, 1400.0),)),
    _short("cold-start-300", "a step, with a cold start of five minutes", cold_start=300.0),
    Scene("hang", "a replica hangs and is restarted after five minutes", Steady(3.6), start=5, event=900.0,
          seconds=2400.0, faults=(Fault("hang", 900.0, 1200.0),)),
)  # fmt: skip

SCENES: Mapping[str, Scene] = {scene.name: scene for scene in (*DESIGNED, *HELD_BACK, *WEAK, *FAULTY)}
