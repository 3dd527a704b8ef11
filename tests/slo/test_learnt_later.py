"""A page that is understood better later on: what the runtime did before must not count as done just now."""

from __future__ import annotations

import json

from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry
from sidecar.slo.engine import SloEngine
from sidecar.slo.objective import Objective
from sidecar.snapshot import Snapshot


def triton(done: int, failed: int) -> Answer:
    lines = []
    for family, count in (("request_success", done), ("count", done), ("exec_count", done)):
        lines.append(f"# TYPE nv_inference_{family} counter")
        lines += [
            f'nv_inference_{family}{{model="{model}",version="1"}} {count}' for model in ("ens", "step")
        ]
    lines.append("# TYPE nv_inference_request_duration_us counter")
    lines += [
        f'nv_inference_request_duration_us{{model="{model}",version="1"}} 1' for model in ("ens", "step")
    ]
    lines.append("# TYPE nv_inference_request_failure counter")
    lines += [
        f'nv_inference_request_failure{{model="{model}",version="1",reason="BACKEND"}} {failed}'
        for model in ("ens", "step")
    ]
    return Answer(200, ("\n".join(lines) + "\n").encode())


def said(body: object) -> Answer:
    return Answer(200, json.dumps(body).encode())


def test_what_is_learnt_of_a_runtime_makes_no_history_an_event() -> None:
    """Triton's ensembles show in the models' configs, which come after the first page."""
    engine = SloEngine([Objective(name="up", signal="availability", objective=0.99)])
    line = TargetPipeline(Settings(runtime="triton"), Registry(), [engine])
    seconds = 0.0

    def read(page: Answer) -> Snapshot:
        nonlocal seconds
        seconds += 2
        return line.feed({"metrics": page}, time=1.7e9 + seconds, mono=1000 + seconds)

    def counted(snapshot: Snapshot, name: str) -> float:
        return snapshot.extra[0].get(name, model_name="ens")

    read(triton(100_000, 500))
    line.learn("version", said({"name": "triton", "version": "2.60.0"}))
    line.learn("index", said([{"name": name, "version": "1", "state": "READY"} for name in ("ens", "step")]))
    steps = {"step": [{"model_name": "step", "model_version": -1}]}
    line.learn("config/ens", said({"name": "ens", "platform": "ensemble", "ensemble_scheduling": steps}))
    line.learn("config/step", said({"name": "step", "backend": "python"}))
    known = read(triton(100_001, 500))
    assert counted(known, "slo_events_total") <= 1
    assert counted(known, "slo_bad_events_total") == 0
    before = counted(known, "slo_events_total")
    after = read(triton(100_011, 502))
    assert counted(after, "slo_events_total") - before == 11
    assert counted(after, "slo_bad_events_total") == 1, "an ensemble counts a failure twice"
