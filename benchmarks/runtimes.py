"""`python -m benchmarks.runtimes`: what one tick costs on the page of each runtime, warm and at first sight.

Pages are rendered by the simulator, or multiplied from a captured shape; between two ticks every counter moves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry
from sidecar.simulator.model import EngineConfig
from sidecar.simulator.nim_page import NimPage
from sidecar.simulator.page import Page
from sidecar.simulator.replica import Replica, ReplicaConfig
from sidecar.simulator.simulation import Simulation
from sidecar.simulator.traffic import Steady, Traffic
from sidecar.simulator.triton_page import TritonPage
from sidecar.simulator.trtllm_page import TrtLlmPage, TrtLlmRows
from sidecar.simulator.vllm_page import VllmPage

TICKS = 50
MODELS = 300


def simulated(page: Page) -> Iterator[bytes]:
    """The page second by second, while the engine works."""
    simulation = Simulation(Replica(ReplicaConfig(engine=EngineConfig()), epoch=1.8e9), Traffic(Steady(6.0)))
    for second in range(10, 10 + TICKS):
        simulation.advance(float(second))
        yield page.render(simulation.service)


def classic_triton(models: int = MODELS) -> Iterator[bytes]:
    """Triton with many classic models, as 24.10 writes it: 13 samples a model."""
    counters = (
        *("request_success", "count", "exec_count", "request_duration_us", "queue_duration_us"),
        *("compute_input_duration_us", "compute_infer_duration_us", "compute_output_duration_us"),
    )
    for tick in range(TICKS):
        lines: list[str] = []
        for place, name in enumerate(counters, 1):
            lines.append(f"# TYPE nv_inference_{name} counter")
            lines += [
                f'nv_inference_{name}{{model="model_{number}",version="1"}} {tick * place * (number + 7)}'
                for number in range(models)
            ]
        lines.append("# TYPE nv_inference_request_failure counter")
        lines += [
            f'nv_inference_request_failure{{model="model_{number}",reason="{reason}",version="1"}} 0'
            for number in range(models)
            for reason in ("REJECTED", "CANCELED", "BACKEND", "OTHER")
        ]
        lines.append("# TYPE nv_inference_pending_request_count gauge")
        lines += [
            f'nv_inference_pending_request_count{{model="model_{number}",version="1"}} {(tick + number) % 5}'
            for number in range(models)
        ]
        yield ("\n".join(lines) + "\n").encode()


PAGES: dict[str, tuple[str, Callable[[], Iterator[bytes]]]] = {
    "vLLM 0.32": ("vllm", lambda: simulated(VllmPage())),
    "Triton with TensorRT-LLM": ("triton", lambda: simulated(TritonPage())),
    f"Triton, {MODELS} models": ("triton", classic_triton),
    "TensorRT-LLM 1.3": ("tensorrt_llm", lambda: simulated(TrtLlmPage())),
    "TensorRT-LLM's rows": ("tensorrt_llm", lambda: simulated(TrtLlmRows())),
    "NIM 1.x": ("nim", lambda: simulated(NimPage())),
}


def tick_costs(runtime: str, bodies: Iterator[bytes]) -> tuple[int, int, float, float]:
    """(lines, series, ms of the first tick, ms of a warm tick: the median)."""
    line = TargetPipeline(Settings(runtime=runtime, max_series=100_000), Registry())
    spent: list[float] = []
    lines = series = 0
    for number, body in enumerate(bodies):
        answers = {"metrics": Answer(200, body)}
        began = time.process_time()
        snapshot = line.feed(answers, time=1.8e9 + number, mono=float(number))
        spent.append(time.process_time() - began)
        lines, series = body.count(b"\n"), len(snapshot.data.layout.series)
    warm = sorted(spent[5:])
    return lines, series, spent[0] * 1e3, warm[len(warm) // 2] * 1e3


def section() -> str:
    """The table of all runtimes' pages."""
    rows = [
        "## A tick of each runtime's page\n",
        "| page | lines | series | first tick, ms | warm tick, ms |",
        "|---|---|---|---|---|",
    ]
    for name, (runtime, bodies) in PAGES.items():
        lines, series, first, warm = tick_costs(runtime, bodies())
        rows.append(f"| {name} | {lines} | {series} | {first:.1f} | {warm:.2f} |")
    return "\n".join(rows) + "\n\n"


if __name__ == "__main__":
    print(section())
