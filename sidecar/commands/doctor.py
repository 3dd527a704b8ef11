"""`doctor`: what was detected, what is covered, what is missing and which flag or version would mend it."""

from __future__ import annotations

import argparse
import asyncio
import json
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from yarl import URL

from sidecar.app import registry_of
from sidecar.app.parts import address_of, fetcher_of, settings_of
from sidecar.commands import probing
from sidecar.commands.pages import UnreadableError, answer_of, cut, read_file
from sidecar.commands.tell import tell
from sidecar.config import Config, ConfigError, Target, load
from sidecar.pipeline import Settings, TargetPipeline
from sidecar.pipeline.diagnose import Diagnosis, Finding, Level, diagnose
from sidecar.runtimes.registry import Registry
from sidecar.schema import Method, Status
from sidecar.slo.check import Level as RuleLevel
from sidecar.slo.lint import ParserMissing, lint, metrics_of_page
from sidecar.slo.store import why_unwritable
from sidecar.snapshot import Provenance, Snapshot
from sidecar.targets.target import Target as Asked

NAME = "doctor"
HELP = "what is covered, what is missing, and which flag or version would mend it"

WIDTH = 79
LOOKS = 3
LOOKS_AT_A_RESTART = 9  # is it one, or are there several replicas?
BETWEEN_LOOKS = 1.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "subject",
        nargs="?",
        metavar="TARGET|PAGE",
        help="URL, name of a target of --config, or file with a page",
    )
    parser.add_argument(
        "--rules",
        nargs="+",
        default=[],
        metavar="FILE",
        help="check these rule files and dashboards: names, labels, quantiles over averages, missing rate",
    )
    parser.add_argument(
        "--config", metavar="FILE", help="where the target, its credentials and mappings stand"
    )
    parser.add_argument("--runtime", default="auto")
    parser.add_argument("--json", action="store_true")


def run(options: argparse.Namespace) -> int:
    if options.subject is None and not options.rules:
        tell("doctor: name a target, a page or --rules FILE")
        return 2
    try:
        found = [_check_rules(options)] if options.rules else []
        found += [_examine(options)] if options.subject is not None else []
    except ConfigError as error:
        tell(error)
        return 2
    except (UnreadableError, ParserMissing) as error:
        tell(f"doctor: {error}")
        return 2
    return max(found)


def _check_rules(options: argparse.Namespace) -> int:
    """Check rules and dashboards against the schema, and against the page when a file is named, too."""
    files = {name: read_file(name).decode("utf-8", "replace") for name in options.rules}
    known = None
    if options.subject is not None and "://" not in options.subject:
        known = metrics_of_page(read_file(options.subject).decode("utf-8", "replace"))
    findings, count = lint(files, known)
    if options.json:
        print(json.dumps({"queries": count, "findings": [asdict(one) for one in findings]}, indent=2))
    else:
        for one in findings:
            print("\n".join(_wrapped(one.level.value, f"{one.subject}: {one.message}")))
        print(f"{count} queries read, {len(findings)} findings")
    return 1 if any(one.level is RuleLevel.ERROR for one in findings) else 0


def _examine(options: argparse.Namespace) -> int:
    """Diagnose the subject. 2 when the runtime that is named isn't known."""
    config = load(Path(options.config) if options.config else None)
    registry = registry_of(config)
    target = _target(options, config)
    if options.runtime != "auto" and options.runtime not in registry.names:
        tell(f"doctor: unknown runtime {options.runtime}; known: {', '.join(registry.names)}")
        return 2
    if target is None:
        diagnosis = diagnose(*_page(options, registry))
    else:
        diagnosis = asyncio.run(_examined(target, config, registry))
    print(json.dumps(asdict(diagnosis), indent=2) if options.json else report(options.subject, diagnosis))
    return 0 if diagnosis.healthy else 1


def _target(options: argparse.Namespace, config: Config) -> Target | None:
    """The target that is meant; None when the subject is a file."""
    named = next((one for one in config.targets if one.name == options.subject), None)
    if named is not None:
        return named
    if "://" not in options.subject:
        if options.subject != "-" and not Path(options.subject).exists():
            raise UnreadableError(
                f"{options.subject}: no file, and no target of --config; a URL starts with http://"
            )
        return None
    try:
        url = URL(options.subject)
        usable = url.scheme in ("http", "https") and bool(url.host)
    except ValueError:
        usable = False
    if not usable:
        raise UnreadableError("the URL can't be used: it needs http:// or https://, a host and a real port")
    if url.user is not None or url.password is not None:
        raise UnreadableError("credentials in the URL: put the target and its auth into a --config")
    path = url.path if url.path not in ("", "/") else None
    found = Target.model_validate(
        {"url": str(url.origin()), "metrics_path": path or "auto", "runtime": options.runtime}
    )
    return config.with_targets([found]).targets[0]


def _page(options: argparse.Namespace, registry: Registry) -> tuple[TargetPipeline, Snapshot]:
    body = read_file(options.subject)
    if cut(body):
        tell("doctor: no newline at the end: the page may be cut")
    pipeline = TargetPipeline(Settings(name="page", runtime=options.runtime), registry)
    return pipeline, pipeline.feed({"metrics": answer_of(body)}, time=time.time(), mono=0.0)


async def _examined(target: Target, config: Config, registry: Registry) -> Diagnosis:
    """What a few looks show, and one probe where the config wants them."""
    pipeline, snapshot = await _live(target, registry)
    diagnosis = diagnose(pipeline, snapshot)
    found = await probing.findings(config, target, pipeline, snapshot)
    first = [one for one in found if one.level is Level.PROBLEM]
    rest = [one for one in found if one not in first]
    if config.state_file is not None and (why := why_unwritable(config.state_file)):
        what = f"state_file {config.state_file} can't be written here and now: {why}"
        rest.append(
            Finding(Level.WARNING, what, "windows of objectives don't survive a restart: see its folder")
        )
    return replace(diagnosis, findings=(*first, *diagnosis.findings, *rest))


async def _live(target: Target, registry: Registry) -> tuple[TargetPipeline, Snapshot]:
    """A few looks: the second one knows the runtime's endpoints, the third one its answers."""
    pipeline = TargetPipeline(settings_of(target), registry)
    clock = asyncio.get_running_loop().time
    look, looks = 0, LOOKS
    while look < looks:
        if look:
            await asyncio.sleep(BETWEEN_LOOKS)
        # A connection for each look: behind a Service it may lead to another replica.
        async with fetcher_of(target) as fetcher:
            asked = Asked(address_of(target), fetcher, limit=target.max_page_size)
            began = clock()
            ports = pipeline.adapter.api_ports if pipeline.adapter is not None else {}
            facts = await asked.facts(pipeline.endpoints, ports, began, began + target.timeout)
            for name, answer in facts.items():
                pipeline.learn(name, answer)
            pages = await asked.pages(pipeline.endpoints, ports, clock() + target.timeout)
        snapshot = pipeline.feed(pages, time=time.time(), mono=clock())
        if not snapshot.up:
            break
        look += 1
        if snapshot.epoch and not pipeline.alternates:
            looks = LOOKS_AT_A_RESTART
    return pipeline, snapshot


def report(subject: str, diagnosis: Diagnosis) -> str:
    """The diagnosis for a terminal of 80 columns."""
    ok = [record for record in diagnosis.signals if record.status is Status.OK]
    lines = [
        *_wrapped("target", f"{subject}: {'up' if diagnosis.up else 'down'}"),
        *_wrapped(
            "runtime",
            f"{diagnosis.runtime or 'unknown'} {diagnosis.version}".strip()
            + (f" ({diagnosis.detection})" if diagnosis.detection else ""),
        ),
    ]
    if diagnosis.signals:
        lines += [
            f"{'signals':10}{len(ok)} of {len(diagnosis.signals)} are there",
            *_signals(diagnosis.signals),
        ]
    if diagnosis.unmapped:
        lines += ["", *_wrapped("unmapped", ", ".join(diagnosis.unmapped))]
    lines.append("")
    for finding in diagnosis.findings:
        lines += _wrapped(
            finding.level.value.upper() if finding.level == "problem" else finding.level.value, finding.what
        )
        if finding.mend:
            lines += _wrapped("", f"-> {finding.mend}")
    if not diagnosis.findings:
        lines.append("nothing to mend")
    return "\n".join(lines)


def _wrapped(head: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=f"{head:10}",
        subsequent_indent=" " * 10,
        break_on_hyphens=False,
        break_long_words=False,
    ) or [head]


def _signals(records: Sequence[Provenance]) -> Iterator[str]:
    """Signals by how they are known, then those that are not there by why."""
    for method in Method:
        group = [one for one in records if one.status is Status.OK and one.method is method]
        yield from _group(method.value, group, lambda one: _source(one))
    for status in Status:
        if status is not Status.OK:
            group = [one for one in records if one.status is status]
            yield from _group(status.value.replace("_", " "), group, lambda one: one.note)


def _source(record: Provenance) -> str:
    plain = record.method is Method.NATIVE or not record.note
    return record.source if plain else f"{record.source} ({record.note})"


def _group(title: str, records: Sequence[Provenance], about: Callable[[Provenance], str]) -> Iterator[str]:
    if records:
        yield f"  {title}"
    for record in records:
        yield from textwrap.wrap(
            about(record) or "-",
            WIDTH,
            initial_indent=f"    {record.signal:32} ",
            subsequent_indent=" " * 37,
            break_on_hyphens=False,
            break_long_words=False,
        )
