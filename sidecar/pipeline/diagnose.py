"""What an SRE can act on: from a target's line and its last snapshot to findings with a mend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from sidecar.pipeline.replicas import MEND, REASON
from sidecar.pipeline.target import TargetPipeline
from sidecar.schema import Status
from sidecar.snapshot import Provenance, Snapshot

MOST_BAD_LINES = 5
MOST_FAMILIES = 6


class Level(StrEnum):
    PROBLEM = "problem"  # a number is wrong or missing that should be there
    WARNING = "warning"  # look at it
    NOTE = "note"  # worth knowing


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    what: str
    mend: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    target: str
    up: bool
    runtime: str
    version: str
    detection: str
    signals: tuple[Provenance, ...]
    unmapped: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        return not any(finding.level is Level.PROBLEM for finding in self.findings)


MENDS = {
    "refused": "nothing listens there: is the runtime up, and is this its metrics port?",
    "timeout": "the runtime answers too slowly: raise `timeout`, or look at its load",
    "dns": "the host name can't be resolved: check `url`",
    "tls": "check `tls.ca_file`, `tls.server_name` and the client certificate",
    "unauthorized": "give credentials: `auth.bearer_token_file` or `auth.basic`",
    "not_found": "no metrics page at this path: set `metrics_path`, or switch metrics on in the runtime",
    "http_error": "the runtime answers with an error: see its log",
    "not_metrics": "this address serves something else: check `url` and `metrics_path`",
    "too_large": "raise `max_page_size`",
    "parse_error": "the page was cut or is malformed: look at it with `record`",
}


def diagnose(pipeline: TargetPipeline, snapshot: Snapshot) -> Diagnosis:
    findings = list(_reached(pipeline, snapshot))
    if pipeline.runtime and snapshot.up:
        findings += [
            *_page(pipeline),
            *_coverage(pipeline, snapshot),
            *_life(snapshot),
            *_own(pipeline),
            *_plausible(snapshot),
            *_completeness(pipeline),
        ]
    order = list(Level)
    return Diagnosis(
        target=snapshot.target,
        up=snapshot.up,
        runtime=pipeline.runtime,
        version=pipeline.facts.version,
        detection=pipeline.detection,
        signals=snapshot.provenance,
        unmapped=pipeline.binding.unmapped if pipeline.binding is not None else (),
        findings=tuple(sorted(findings, key=lambda finding: order.index(finding.level))),
    )


def _reached(pipeline: TargetPipeline, snapshot: Snapshot) -> Iterator[Finding]:
    if not snapshot.up:
        results = snapshot.life.layout.by_signal.get("target_scrapes_total", ())
        result = next(
            (
                one.label("result")
                for one in results
                if snapshot.life.values[one.start] and one.label("result") != "ok"
            ),
            "",
        )
        yield Finding(Level.PROBLEM, snapshot.reasons.get("scrape") or result, MENDS.get(result, ""))
    elif not pipeline.runtime:
        yield Finding(Level.PROBLEM, pipeline.detection, "name it with `runtime`, or write a mapping for it")


def _page(pipeline: TargetPipeline) -> Iterator[Finding]:
    bad = pipeline.shape.bad_lines
    for line in bad[:MOST_BAD_LINES]:
        family = line.family or "unknown"
        yield Finding(
            Level.PROBLEM, f"line {line.number} is malformed ({line.reason}): family {family} is lost"
        )
    if len(bad) > MOST_BAD_LINES:
        yield Finding(Level.PROBLEM, f"and {len(bad) - MOST_BAD_LINES} more malformed lines")


def _coverage(pipeline: TargetPipeline, snapshot: Snapshot) -> Iterator[Finding]:
    if pipeline.alternates:
        yield Finding(Level.PROBLEM, REASON, MEND)
        return
    if not any(record.status is Status.OK for record in snapshot.provenance):
        notes = [record.note for record in snapshot.provenance if record.status is Status.NEEDS_FLAG]
        yield Finding(Level.PROBLEM, "no signal at all is on the page", notes[0] if notes else "")
        return
    for record in snapshot.provenance:
        if record.status in (Status.TYPE_MISMATCH, Status.CONFLICT):
            yield Finding(Level.PROBLEM, f"{record.signal}: {record.note or record.status.value}")
        elif record.status is Status.INVALID:
            yield Finding(Level.PROBLEM, f"{record.signal}: {record.note}", "look at the page with `record`")
        elif record.status is Status.NEEDS_FLAG:
            yield Finding(Level.NOTE, f"{record.signal} is off", record.note)
        elif record.signal == "request_slots" and record.status is not Status.OK:
            yield Finding(Level.NOTE, "the number of request slots is not known", "set `capacity.slots`")


def _life(snapshot: Snapshot) -> Iterator[Finding]:
    if snapshot.life.get("target_wedged") == 1:
        age = snapshot.life.get("progress_age_seconds")
        yield Finding(
            Level.PROBLEM,
            f"work is in flight and nothing has progressed for {age:.0f} s, whatever /health says",
            "restart the engine; see the runbook on wedged targets",
        )
    if snapshot.life.get("target_ready") == 0:
        yield Finding(Level.WARNING, "the runtime says that it is not ready")


def _own(pipeline: TargetPipeline) -> Iterator[Finding]:
    """What only this runtime's adapter can tell."""
    if pipeline.adapter is not None:
        for sentence in pipeline.adapter.findings():
            what, _, mend = sentence.partition(": ")
            yield Finding(Level.WARNING, what, mend)


def _plausible(snapshot: Snapshot) -> Iterator[Finding]:
    data = snapshot.data
    for series in data.layout.by_signal.get("time_to_first_token_seconds", ()):
        count, total = data.values[series.count_index], data.values[series.sum_index]
        if count > 20 and total / count < 0.001:
            yield Finding(
                Level.WARNING,
                f"mean time to first token is {total / count * 1e3:.2f} ms: too short to be true",
                "old engines and proxies count it wrongly; judge by e2e_request_latency",
            )
    finished = sum(data.values[one.start] for one in data.layout.find("requests_total", outcome="success"))
    first = sum(
        data.values[one.count_index] for one in data.layout.by_signal.get("time_to_first_token_seconds", ())
    )
    running = sum(data.values[one.start] for one in data.layout.by_signal.get("requests_running", ()))
    if finished > 20 and first > 1.5 * finished and running < 0.1 * finished:
        yield Finding(
            Level.WARNING,
            f"{first:.0f} first tokens for {finished:.0f} finished requests",
            "many clients go away, or an old engine counts first tokens twice (chunked prefill in V0)",
        )


def _completeness(pipeline: TargetPipeline) -> Iterator[Finding]:
    if pipeline.dropped:
        yield Finding(
            Level.WARNING, f"{pipeline.dropped} rows are over the cap and left out", "raise `max_series`"
        )
    unmapped = pipeline.binding.unmapped if pipeline.binding is not None else ()
    if unmapped:
        more = " …" if len(unmapped) > MOST_FAMILIES else ""
        yield Finding(
            Level.WARNING,
            f"{len(unmapped)} families are not known: {', '.join(unmapped[:MOST_FAMILIES])}{more}",
            "a newer runtime than this sidecar? map them under `mappings`, or upgrade",
        )
    if not pipeline.facts.version:
        yield Finding(Level.NOTE, "the runtime's version is not known: its /version was not seen")
