"""What is wrong now, the gravest first, each with what mends it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from sidecar.outputs.signals_json import Json
from sidecar.outputs.web.fleet import replicas_of
from sidecar.outputs.web.numbers import and_more, first, highest, numbers, percent, plain, seconds, total
from sidecar.outputs.web.objectives import SIGNAL_WORDS, Row, objectives
from sidecar.outputs.web.trail import Trail
from sidecar.pipeline.diagnose import MENDS
from sidecar.probe.mends import MENDS as MENDS_OF_PROBES
from sidecar.schema import Status
from sidecar.snapshot import Block, Publication, Snapshot, is_absent

BAD, WARN, NOTE = "bad", "warn", "note"
_ORDER = {BAD: 0, WARN: 1, NOTE: 2}

#: Statuses of signals that somebody can do something about.
_TROUBLES = frozenset(
    (Status.TYPE_MISMATCH, Status.CONFLICT, Status.NEEDS_FLAG, Status.INVALID, Status.DROPPED)
)

#: From here on a cache, the slots or the memory count as full.
FULL = 0.95

#: Reasons that hold clocks down and mean that something is amiss; idle and a power cap are normal work.
_HOT = frozenset({"hw_slowdown", "sw_thermal", "hw_thermal", "power_brake"})


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: how bad, where (a target, a GPU), what, and the mend."""

    severity: str
    where: str
    what: str
    mend: str

    def json(self) -> Json:
        return asdict(self)


def problems(publication: Publication, trails: Mapping[str, Trail]) -> list[Problem]:
    """All problems of a publication; equal ones once."""
    found = [
        problem
        for snapshot in publication.snapshots
        for problem in _of_target(snapshot, trails.get(snapshot.target) or Trail())
    ]
    found += _of_gpus(publication.shared)
    found += _of_fleet(publication.shared)
    return sorted(dict.fromkeys(found), key=lambda problem: _ORDER[problem.severity])


def _of_target(snapshot: Snapshot, trail: Trail) -> Iterator[Problem]:
    where = snapshot.target
    if not snapshot.up:
        last = trail.last
        result = last.result if last is not None else ""
        detail = snapshot.reasons.get("scrape", "")
        what = "Down: " + (detail or result.replace("_", " ") or "no scrape has succeeded")
        mend = MENDS.get(result, "run `inference-sidecar doctor` on its url")
        yield Problem(BAD, where, what, mend[0].upper() + mend[1:] + ("" if mend.endswith("?") else "."))
        return
    if not snapshot.runtime:
        mend = "Set the target's runtime, or describe the page under mappings in the config."
        yield Problem(BAD, where, "It answers, but its runtime isn't recognised.", mend)
        return
    if first((snapshot.life,), "target_wedged") == 1:
        stuck = seconds(first((snapshot.life,), "progress_age_seconds"))
        mend = "Restart the engine; its log and a stack dump tell why it stopped."
        yield Problem(BAD, where, f"Wedged: work is in flight and nothing has moved for {stuck}.", mend)
    if first((snapshot.life,), "target_ready") == 0:
        mend = "Wait for the model to load; if it stays so, read the runtime's log."
        yield Problem(WARN, where, "Up, but its readiness endpoint says no.", mend)
    yield from _of_objectives(snapshot)
    yield from _of_load(snapshot, trail)
    yield from _of_probes(snapshot)
    yield from _of_coverage(snapshot)


def _of_objectives(snapshot: Snapshot) -> Iterator[Problem]:
    """One problem an objective and kind of trouble, whatever the number of models that it is of."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    rows = objectives(snapshot)
    for row in rows:
        if kind := _trouble(row):
            groups[kind, row.slo].append(row)
    several = len({row.model for row in rows}) > 1
    for (kind, slo), found in groups.items():
        worst = found[0]
        name = f"Objective {slo}"
        if several:
            name += f" of {and_more([row.model for row in found])}"
        if kind == "unmeasured":
            yield Problem(WARN, snapshot.target, f"{name} can't be measured.", _unmeasured(snapshot, worst))
        elif kind == "spent":
            what = f"{name} has used up its budget ({worst.promise} over {worst.period})."
            yield Problem(BAD, snapshot.target, what, "Add capacity or shed load; hold back changes.")
        else:
            what = f"{name} burns its budget {plain(worst.now)} times too fast ({worst.promise})."
            gone = min(row.gone_in for row in found)
            mend = f"See the cause in this target's row; at this rate the budget is gone in {seconds(gone)}."
            yield Problem(WARN, snapshot.target, what, mend)


def _trouble(row: Row) -> str:
    if row.status == "not_measurable":
        return "unmeasured"
    if row.budget <= 0 and row.burn:
        return "spent"
    return "burning" if row.sustained > 1 else ""


def _unmeasured(snapshot: Snapshot, row: Row) -> str:
    signal = row.signal + "_seconds"
    note = next((one.note for one in snapshot.provenance if one.signal == signal and one.note), "")
    words = SIGNAL_WORDS.get(row.signal, row.signal)
    return note or f"The runtime shows no {words} in buckets; method: mean would judge it by its average."


def _of_load(snapshot: Snapshot, trail: Trail) -> Iterator[Problem]:
    data = (snapshot.data,)
    usage = highest(data, "kv_cache_usage_ratio")
    preempted = trail.rate("preemptions_total")
    waiting = total(data, "requests_waiting")
    if usage >= FULL and preempted > 0:
        what = (
            f"KV cache {percent(usage)} full and {plain(preempted * 60)} requests a minute lose their place."
        )
        mend = "Add a replica, allow fewer or shorter requests, or give the cache more GPU memory."
        yield Problem(WARN, snapshot.target, what, mend)
    elif usage >= FULL and waiting > 0:
        what = f"KV cache {percent(usage)} full, {plain(waiting)} requests wait for it."
        yield Problem(WARN, snapshot.target, what, "Add a replica, or give the cache more GPU memory.")
    errors, finished = trail.rate("errors"), trail.rate("requests_total")
    if finished > 0 and errors / finished > 0.01:
        what = f"{percent(errors / finished)} of the requests of the last minute failed."
        yield Problem(BAD, snapshot.target, what, "Read the runtime's log; compare with its last change.")


def _of_probes(snapshot: Snapshot) -> Iterator[Problem]:
    """A model that didn't answer the sidecar's last completion; the result that was counted most says why."""
    for labels, value in numbers(snapshot.extra, "probe_success"):
        if value == 0:
            model = labels.get("model_name", "")
            failed = {
                of["result"]: count
                for of, count in numbers(snapshot.extra, "probe_requests_total")
                if of.get("model_name", "") == model and of["result"] != "ok"
            }
            result = max(failed, key=lambda one: failed[one], default="")
            mend = MENDS_OF_PROBES.get(result) or "run `inference-sidecar doctor`"
            what = f"The last probe of {model or 'its model'} wasn't answered: {result.replace('_', ' ')}."
            yield Problem(WARN, snapshot.target, what, mend[0].upper() + mend[1:] + ".")


def _of_coverage(snapshot: Snapshot) -> Iterator[Problem]:
    by_note: dict[tuple[Status, str], list[str]] = defaultdict(list)
    for one in snapshot.provenance:
        if one.status in _TROUBLES:
            by_note[one.status, one.note].append(one.signal)
    for (status, note), names in by_note.items():
        if status is Status.NEEDS_FLAG:
            what = f"Not shown without a flag: {and_more(names)}."
            flag = f"Start the runtime with {note}." if note.startswith("-") else note
            yield Problem(NOTE, snapshot.target, what, flag or "See the runtime's page in the docs.")
        elif status is Status.INVALID:
            what = f"{and_more(names)}: numbers on the runtime's page can't be, so none is shown ({note})."
            yield Problem(
                WARN, snapshot.target, what, "Look at the page with record, and at the runtime's log."
            )
        elif status is Status.DROPPED:
            what = f"Not all of it is shown: {and_more(names)} ({note})."
            yield Problem(WARN, snapshot.target, what, "Raise max_series of the target.")
        else:
            what = f"{and_more(names)}: {status.value.replace('_', ' ')} on the runtime's page."
            mend = note or "The runtime has changed its page: override the mapping, and report it."
            yield Problem(WARN, snapshot.target, what, mend)


def _of_gpus(shared: tuple[Block, ...]) -> Iterator[Problem]:
    name = {
        labels["gpu_uuid"]: f"GPU {labels.get('index') or labels['gpu_uuid']}"
        for labels, _ in numbers(shared, "gpu_info")
    }

    def each(signal: str) -> Iterator[tuple[dict[str, str], float, str]]:
        for labels, value in numbers(shared, signal):
            uuid = labels.get("gpu_uuid", "")
            yield labels, value, name.get(uuid, f"GPU {uuid}")

    for _, value, gpu in each("gpu_up"):
        if value == 0:
            yield Problem(
                BAD, gpu, "Lost: the driver doesn't reach it.", "Reset it or restart the host; drain first."
            )
    for _, value, gpu in each("gpu_row_remap_failed"):
        if value > 0:
            yield Problem(BAD, gpu, "Memory rows could not be remapped.", "Replace the GPU.")
    for _, value, gpu in each("gpu_row_remap_pending"):
        if value > 0:
            yield Problem(
                WARN, gpu, "A memory row waits to be remapped.", "Drain its replica and reset the GPU."
            )
    for labels, value, gpu in each("gpu_recovery_action"):
        if value == 1 and labels.get("action") != "none":
            action = labels.get("action", "").replace("_", " ")
            yield Problem(
                BAD, gpu, f"The driver asks for: {action}.", "Drain its replica and do what it asks."
            )
    for labels, value, gpu in each("gpu_xid_errors_total"):
        if value > 0:
            what = f"Xid {labels.get('xid', '?')}, {plain(value)} since the sidecar started."
            yield Problem(
                WARN, gpu, what, "Look the code up in the GPU's Xid catalogue; dmesg has the details."
            )
    hot: dict[str, list[str]] = defaultdict(list)
    for labels, value, gpu in each("gpu_clock_limited"):
        if value == 1 and labels.get("reason") in _HOT:
            hot[gpu].append(labels["reason"])
    for gpu, reasons in hot.items():
        what = f"Its clocks are held down: {', '.join(reasons)}."
        yield Problem(WARN, gpu, what, "Look at cooling and power; other work on the board counts too.")
    for labels, value in numbers(shared, "gpu_collect_success"):
        if value == 0:
            source = labels.get("source", "?")
            what = f"GPUs can't be read ({source})."
            yield Problem(WARN, "GPUs", what, "See the sidecar's log: it names the cause and the mend.")


def _of_fleet(shared: tuple[Block, ...]) -> Iterator[Problem]:
    """Of the fleet role: what it can't see."""
    replicas = replicas_of(shared)
    if not replicas:
        return
    listed, ready, answering = (replicas.get(state, 0.0) for state in ("listed", "ready", "answering"))
    failing = [
        f"{labels.get('result', '?').replace('_', ' ')} {plain(count)}"
        for labels, count in numbers(shared, "fleet_failing_sidecars")
        if count
    ]
    how = f" ({', '.join(failing)})" if failing else ""
    if listed and not answering:
        what = f"None of {plain(listed)} replicas answers{how}: KEDA is told nothing and holds the size."
        yield Problem(BAD, "Fleet", what, "See the sidecars below, and whether this role may reach them.")
    elif answering < ready:
        what = f"{plain(ready - answering)} of {plain(ready)} replicas aren't heard{how}."
        yield Problem(WARN, "Fleet", what, "They are taken to need what the others need. See them below.")
    elif failing:
        yield Problem(
            NOTE, "Fleet", f"Sidecars that can't be read{how}.", "They have not served yet: see below."
        )
    if first(shared, "fleet_discovery_success") == 0:
        what = "The sidecars can't be listed; the last list holds."
        yield Problem(WARN, "Fleet", what, "The role's log names the cause.")
    if not listed and first(shared, "fleet_router_up") != 1:
        what = "No sidecar is listed, and no router tells of work."
        yield Problem(WARN, "Fleet", what, "Look at --dns, --file or --sidecar; from zero it needs --router.")
    elif first(shared, "fleet_router_up") == 0:
        what = "The router can't be read: nobody wakes a fleet of none."
        yield Problem(WARN, "Fleet", what, "The role's log names the cause.")


def is_full(ratio: float) -> bool:
    return not is_absent(ratio) and ratio >= FULL
