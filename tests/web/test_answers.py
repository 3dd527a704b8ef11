"""Problems and the three answers, from snapshots of the demo and of broken worlds."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from sidecar.outputs.web.objectives import Row, objectives
from sidecar.outputs.web.problems import problems
from sidecar.outputs.web.trail import Trail
from sidecar.outputs.web.verdict import cause, outlook, users
from sidecar.schema import Method, Scope, Status
from sidecar.snapshot import EMPTY_BLOCK, Block, Provenance, Publication, Snapshot, block_of

Rows = Iterable[tuple[str, dict[str, str], float]]
WHERE = {"target": "a", "runtime": "vllm", "model_name": "m"}


def snapshot(
    *,
    data: dict[str, float] | None = None,
    life: dict[str, float] | None = None,
    extra: Rows = (),
    up: bool = True,
    runtime: str = "vllm",
    reason: str = "",
    provenance: tuple[Provenance, ...] = (),
) -> Snapshot:
    return Snapshot(
        "a",
        runtime,
        1000.0,
        1000.0,
        0,
        up,
        block_of([(name, WHERE, value) for name, value in (data or {}).items()]),
        block_of([(name, {"target": "a"}, value) for name, value in (life or {}).items()]),
        provenance,
        (block_of([(name, WHERE | labels, value) for name, labels, value in extra]),),
        {"scrape": reason} if reason else {},
    )


def slo(
    burn: dict[str, float], budget: float, *, status: str = "ok", name: str = "ttft"
) -> list[tuple[str, dict[str, str], float]]:
    info = {
        "slo": name,
        "signal": "time_to_first_token",
        "threshold": "0.8",
        "objective": "0.95",
        "period": "7d",
        "status": status,
    }
    rows = [("slo_info", info, 1.0)]
    rows += [("slo_burn_rate", {"slo": name, "window": window}, rate) for window, rate in burn.items()]
    return [*rows, ("slo_error_budget_remaining_ratio", {"slo": name}, budget)]


def found(one: Snapshot, shared: tuple[Block, ...] = ()) -> list[tuple[str, str, str]]:
    trail = Trail()
    trail.feed(one)
    publication = Publication(1000.0, (one,), shared)
    return [(p.severity, p.where, p.what) for p in problems(publication, {"a": trail})]


def test_nothing_is_wrong_with_a_healthy_target() -> None:
    well = snapshot(data={"requests_running": 5, "requests_waiting": 0}, extra=slo({"5m": 0.2}, 0.9))
    assert found(well) == []
    assert users(well, Trail()).level == "good"
    assert cause(well, Trail()).text == "Nothing is held up"
    assert outlook(well).text == "Nothing in sight"


def test_a_target_that_is_down_comes_first_and_nothing_is_claimed_of_it() -> None:
    down = snapshot(up=False, reason="127.0.0.1:9: connection refused")
    severity, where, what = found(down)[0]
    assert (severity, where) == ("bad", "a")
    assert "connection refused" in what
    assert users(down, Trail()).text.startswith("Unknown")
    assert cause(down, Trail()).level == outlook(down).level == "unknown"


def test_the_mend_follows_the_kind_of_failure() -> None:
    down = Snapshot(
        *("a", "vllm", 1000.0, 1000.0, 0, False, EMPTY_BLOCK),
        block_of([("target_scrapes_total", {"target": "a", "result": "unauthorized"}, 3.0)]),
    )
    trail = Trail()
    trail.feed(down)
    (problem,) = problems(Publication(1000.0, (down,)), {"a": trail})
    assert "auth" in problem.mend


def test_an_unknown_runtime_and_a_wedged_engine() -> None:
    assert "isn't recognised" in found(snapshot(runtime=""))[0][2]
    wedged = snapshot(life={"target_wedged": 1, "progress_age_seconds": 75})
    assert found(wedged)[0] == ("bad", "a", "Wedged: work is in flight and nothing has moved for 75 s.")
    assert "75 s" in cause(wedged, Trail()).text
    assert users(wedged, Trail()).text == "Requests hang"


@pytest.mark.parametrize(
    ("burn", "budget", "level", "severity"),
    [
        ({"5m": 6.0, "1h": 4.0}, 0.5, "bad", "warn"),
        ({"5m": 6.0, "1h": 0.3}, 0.9, "warn", None),  # a spike is no trend
        ({"5m": 6.0, "1h": 4.0}, -0.2, "bad", "bad"),
        ({"5m": 0.1, "1h": 0.3}, -0.2, "warn", "bad"),  # over, and its budget is gone
        ({"5m": 0.1}, 0.9, "good", None),
    ],
)
def test_objectives_decide_whether_users_suffer(
    burn: dict[str, float], budget: float, level: str, severity: str | None
) -> None:
    one = snapshot(extra=slo(burn, budget))
    assert users(one, Trail()).level == level
    assert [row[0] for row in found(one)] == ([severity] if severity else [])


def test_when_the_budget_is_gone() -> None:
    (row,) = objectives(snapshot(extra=slo({"5m": 9.0, "1h": 4.0}, 0.5)))
    assert row.gone_in == pytest.approx(0.5 * 7 * 86_400 / 4.0), "of the slower of the two windows"
    assert row.promise == "95 % below 800 ms"
    assert outlook(snapshot(extra=slo({"5m": 9.0, "1h": 4.0}, 0.5))).text == "ttft: budget gone in 21 h"
    assert "no budget left" in outlook(snapshot(extra=slo({"5m": 9.0}, -1.0))).text


def test_an_objective_that_cannot_be_measured_names_the_flag() -> None:
    note = Provenance("time_to_first_token_seconds", Status.NEEDS_FLAG, note="start it with --histograms")
    one = snapshot(extra=slo({}, float("nan"), status="not_measurable"), provenance=(note,))
    publication = Publication(1000.0, (one,))
    mends = [problem.mend for problem in problems(publication, {})]
    assert mends[0] == "start it with --histograms"
    assert users(one, Trail()).text == "Too early to say"


def test_an_objective_of_many_models_is_one_problem() -> None:
    rows = []
    for model in ("a", "b", "c", "d", "e"):
        rows += [
            (name, {**labels, "model_name": model}, value) for name, labels, value in slo({"5m": 2.0}, -0.5)
        ]
    assert [what for _, _, what in found(snapshot(extra=rows))] == [
        "Objective ttft of a, b, c and 2 more has used up its budget (95 % below 800 ms over 7d)."
    ]


def test_no_objective_is_no_verdict() -> None:
    assert users(snapshot(), Trail()).text == "No objective is set"


def test_what_holds_requests_up() -> None:
    full = snapshot(data={"requests_waiting": 40, "requests_running": 30, "kv_cache_usage_ratio": 0.97})
    assert (cause(full, Trail()).level, cause(full, Trail()).text) == ("bad", "KV cache 97 % full")
    assert "40 requests wait" in found(full)[0][2]
    slots = snapshot(
        data={"requests_waiting": 9, "requests_running": 48, "request_slots": 48, "kv_cache_usage_ratio": 0.3}
    )
    assert cause(slots, Trail()).text == "Request slots 100 % full"
    queue = snapshot(data={"requests_waiting": 12, "requests_running": 3})
    assert cause(queue, Trail()).text == "12 requests wait"
    assert cause(snapshot(), Trail()).level == "unknown", "a runtime that tells neither is not judged"


def test_one_replica_is_not_enough() -> None:
    one = snapshot(
        extra=[
            ("replica_demand", {}, 2.4),
            ("replica_demand_info", {"limit": "kv_cache", "reason": "load"}, 1.0),
        ]
    )
    assert outlook(one).text == "One replica isn't enough: 2.4 needed"
    assert outlook(one).detail == "load for 2.4 replicas, limited by KV cache"


def test_flags_are_notes_and_type_changes_are_warnings() -> None:
    provenance = (
        Provenance("adapter_running", Status.NEEDS_FLAG, note="--enable-lora"),
        Provenance("adapter_waiting", Status.NEEDS_FLAG, note="--enable-lora"),
        Provenance(
            "preemptions_total", Status.TYPE_MISMATCH, Method.NATIVE, "x", Scope.ENGINE, "a gauge now"
        ),
    )
    assert found(snapshot(provenance=provenance)) == [
        ("warn", "a", "preemptions_total: type mismatch on the runtime's page."),
        ("note", "a", "Not shown without a flag: adapter_running, adapter_waiting."),
    ]


def test_gpus() -> None:
    uuid = {"gpu_uuid": "GPU-1"}
    shared = block_of(
        [
            ("gpu_info", {**uuid, "index": "3"}, 1.0),
            ("gpu_up", uuid, 0.0),
            ("gpu_xid_errors_total", {**uuid, "xid": "79"}, 2.0),
            ("gpu_clock_limited", {**uuid, "reason": "hw_thermal"}, 1.0),
            ("gpu_clock_limited", {**uuid, "reason": "power_cap"}, 1.0),
            ("gpu_row_remap_pending", uuid, 1.0),
            ("gpu_recovery_action", {**uuid, "action": "none"}, 1.0),
            ("gpu_recovery_action", {**uuid, "action": "gpu_reset"}, 0.0),
            ("gpu_collect_success", {"source": "nvml"}, 0.0),
        ]
    )
    assert found(snapshot(), (shared,)) == [
        ("bad", "GPU 3", "Lost: the driver doesn't reach it."),
        ("warn", "GPU 3", "A memory row waits to be remapped."),
        ("warn", "GPU 3", "Xid 79, 2 since the sidecar started."),
        ("warn", "GPU 3", "Its clocks are held down: hw_thermal."),
        ("warn", "GPUs", "GPUs can't be read (nvml)."),
    ]


def test_the_worst_objective_is_the_first_row() -> None:
    rows = [*slo({"5m": 0.1}, 0.9, name="fine"), *slo({"5m": 3.0}, 0.1, name="poor")]
    rows += slo({}, float("nan"), name="blind", status="not_measurable")
    assert [row.slo for row in objectives(snapshot(extra=rows))] == ["poor", "fine", "blind"]
    assert isinstance(objectives(snapshot(extra=rows))[0], Row)
