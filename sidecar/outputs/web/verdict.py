"""Three answers for each target: do users suffer, why, and what is about to break."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from sidecar.outputs.signals_json import Json
from sidecar.outputs.web.numbers import first, highest, numbers, percent, plain, seconds, total
from sidecar.outputs.web.objectives import Row, objectives
from sidecar.outputs.web.trail import Trail
from sidecar.snapshot import ABSENT, Snapshot, is_absent

GOOD, WARN, BAD, UNKNOWN = "good", "warn", "bad", "unknown"

#: A budget that is gone sooner than this is worth a line.
SOON = 3 * 86_400.0

#: So many that wait are a queue; fewer are requests on their way into the batch.
A_QUEUE = 3

#: What saturates, and what a capacity is limited by; the page has the same words (`static/words.js`).
RESOURCE_WORDS = {"slots": "Request slots", "kv_cache": "KV cache", "gpu_memory": "GPU memory"}
LIMIT_WORDS = {
    "slots": "request slots",
    "kv_cache": "KV cache",
    "slo": "the latency objective",
    "observed": "what it was seen to run",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """How good, the answer in a few words, and what it rests on."""

    level: str
    text: str
    detail: str = ""

    def json(self) -> Json:
        return asdict(self)


def users(snapshot: Snapshot, trail: Trail) -> Answer:
    """Do users suffer? By the objectives; without any, the latency is told and not judged."""
    if not snapshot.up:
        return Answer(BAD, "Unknown: no answer from the target", snapshot.reasons.get("scrape", ""))
    if first((snapshot.life,), "target_wedged") == 1:
        return Answer(BAD, "Requests hang", _load(snapshot))
    rows = [row for row in objectives(snapshot) if not is_absent(row.now)]
    latency = _latency(trail)
    if not rows:
        judged = objectives(snapshot)
        text = "Too early to say" if judged else "No objective is set"
        return Answer(UNKNOWN, text, latency or "no request in the last minute")
    worst = max(rows, key=lambda row: row.now)
    spent = [row for row in rows if row.budget <= 0]
    if worst.now > 1:
        level = BAD if worst.sustained > 1 else WARN
        text = f"{worst.slo} burns {plain(worst.now)}× its budget"
        return Answer(level, text, _joined(latency, f"promised {worst.promise}"))
    if spent:
        text = f"{spent[0].slo}: budget used up"
        return Answer(WARN, text, _joined("better now", latency))
    return Answer(
        GOOD, "Objectives are met", _joined(latency, f"worst burn {plain(worst.now)}× ({worst.slo})")
    )


def cause(snapshot: Snapshot, trail: Trail) -> Answer:
    """What holds the requests up?"""
    if not snapshot.up:
        return Answer(UNKNOWN, "Unknown")
    blocks = snapshot.blocks
    if first((snapshot.life,), "target_wedged") == 1:
        stuck = seconds(first((snapshot.life,), "progress_age_seconds"))
        return Answer(BAD, f"The engine stands still for {stuck}", _load(snapshot))
    resource, ratio = _fullest(snapshot)
    waiting = total(blocks, "requests_waiting")
    preempted = trail.rate("preemptions_total")
    detail = _load(snapshot)
    if preempted > 0:
        detail = _joined(detail, f"{plain(preempted * 60)} preemptions/min")
    if ratio >= 0.9:
        level = BAD if waiting > 0 else WARN
        return Answer(level, f"{RESOURCE_WORDS.get(resource, resource)} {percent(ratio)} full", detail)
    if waiting >= A_QUEUE:
        return Answer(WARN, f"{plain(waiting)} requests wait", detail)
    if is_absent(waiting) and is_absent(ratio):
        return Answer(UNKNOWN, "Not told by this runtime", detail)
    fullest = "" if is_absent(ratio) else f"fullest {RESOURCE_WORDS.get(resource, resource)} {percent(ratio)}"
    return Answer(GOOD, "Nothing is held up", _joined(detail, fullest))


def outlook(snapshot: Snapshot) -> Answer:
    """What is about to break? The budget that is gone first, and whether this replica still suffices."""
    if not snapshot.up:
        return Answer(UNKNOWN, "Unknown")
    demand = total(snapshot.extra, "replica_demand")
    parts = []
    level, text = GOOD, "Nothing in sight"
    rows = objectives(snapshot)
    if rows and not any(row.burn for row in rows):
        level, text = UNKNOWN, "Too early to say"
    going = [row for row in rows if not is_absent(row.gone_in) and row.gone_in < SOON]
    if going:
        soonest = min(going, key=lambda row: row.gone_in)
        level, text = _budget(soonest)
    if not is_absent(demand):
        parts.append(f"load for {plain(demand)} replicas" + _decided_by(snapshot))
        if demand > 1.0 and not going:
            level, text = WARN, f"One replica isn't enough: {plain(demand)} needed"
    elif level == GOOD and not snapshot.extra:
        level, text = UNKNOWN, "Not judged"
    return Answer(level, text, _joined(*parts))


def _budget(row: Row) -> tuple[str, str]:
    if row.gone_in <= 0:
        return BAD, f"{row.slo}: no budget left"
    level = BAD if row.gone_in < 21_600 else WARN
    return level, f"{row.slo}: budget gone in {seconds(row.gone_in)}"


def _decided_by(snapshot: Snapshot) -> str:
    for labels, _ in numbers(snapshot.extra, "replica_demand_info"):
        limit = labels.get("limit", "")
        if limit and limit != "none":
            return f", limited by {LIMIT_WORDS.get(limit, limit)}"
    return ""


def _fullest(snapshot: Snapshot) -> tuple[str, float]:
    """The resource that is fullest; from the raw signals where saturation isn't derived."""
    ratios = {
        labels["resource"]: value
        for labels, value in numbers(snapshot.extra, "saturation_ratio")
        if labels.get("resource") not in ("max", "queue")  # a queue is what it leads to
    }
    if not ratios:
        running = total(snapshot.blocks, "requests_running")
        slots = total(snapshot.blocks, "request_slots")
        ratios = {
            "kv_cache": highest(snapshot.blocks, "kv_cache_usage_ratio"),
            "slots": running / slots if slots > 0 else ABSENT,
        }
        ratios = {name: value for name, value in ratios.items() if not is_absent(value)}
    fullest = max(ratios, key=lambda name: ratios[name], default="")
    return fullest, ratios.get(fullest, ABSENT)


def _latency(trail: Trail) -> str:
    what = "TTFT" if trail.latency.startswith("time_to_first") else "latency"
    for kind, value in (("p95", trail.quantile(0.95)), ("mean", trail.mean())):
        if not is_absent(value):
            return f"{kind} {what} {seconds(value)}"
    return ""


def _load(snapshot: Snapshot) -> str:
    running = total(snapshot.blocks, "requests_running")
    waiting = total(snapshot.blocks, "requests_waiting")
    slots = total(snapshot.blocks, "request_slots")
    runs = "" if is_absent(running) else f"{plain(running)} run"
    if runs and slots > 0:
        runs = f"{plain(running)} of {plain(slots)} slots run"
    return _joined(runs, "" if is_absent(waiting) else f"{plain(waiting)} wait")


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)
