"""`map`: a captured page in, the normalised page out, offline."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from sidecar.app import registry_of
from sidecar.commands.pages import UnreadableError, answer_of, cut, read_file
from sidecar.commands.tell import tell
from sidecar.config import ConfigError, load
from sidecar.gpu import pages as gpu_pages
from sidecar.outputs.prometheus.page import render_blocks
from sidecar.pipeline import Settings, TargetPipeline
from sidecar.schema import Kind
from sidecar.snapshot import Block, Series, Snapshot, is_absent

NAME = "map"
HELP = "a captured page in, the normalised page out; offline"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "page",
        nargs="+",
        metavar="PAGE",
        help="file with a page of a runtime or GPU exporter; - is stdin",
    )
    parser.add_argument("--runtime", default="auto", help="runtime that the page is of (default: auto)")
    parser.add_argument("--runtime-version", default="", metavar="VERSION", help="where a rule depends on it")
    parser.add_argument("--format", choices=["text", "json"], default="text", help="default: text")
    parser.add_argument("--config", metavar="FILE", help="where own mappings stand")
    parser.add_argument("--target", help="value of the label target (default: local, or the file's name)")


def run(options: argparse.Namespace) -> int:
    if options.target and len(options.page) > 1:
        tell("map: --target names one page's target; several are named by their files")
        return 2
    try:
        registry = registry_of(load(options.config))
    except ConfigError as error:
        tell(error)
        return 2
    if options.runtime != "auto" and options.runtime not in registry.names:
        tell(f"map: unknown runtime {options.runtime}; known: {', '.join(registry.names)}")
        return 2
    blocks: list[Block] = []
    rows: list[dict[str, Any]] = []
    code = 0
    for name in options.page:
        try:
            body = read_file(name)
        except UnreadableError as error:
            tell(f"map: {error}")
            return 2
        target = options.target or ("local" if len(options.page) == 1 else Path(name).stem)
        pipeline = TargetPipeline(Settings(name=target, runtime=options.runtime), registry)
        if options.runtime_version:
            pipeline.pin_version(options.runtime_version)
        snapshot = pipeline.feed({"metrics": answer_of(body)}, time=time.time(), mono=0.0)
        if not pipeline.runtime and snapshot.up and gpu_pages.detect(body) is not None:
            blocks.append(gpu_pages.read(body))
            rows.append({"page": name, "gpu": _rows(blocks[-1])})
            continue
        code = max(code, _complain(name, body, pipeline, snapshot))
        blocks.append(snapshot.data)
        rows.append(_json(name, pipeline, snapshot))
    if options.format == "json":
        print(json.dumps(rows if len(rows) > 1 else rows[0], indent=2))
    else:
        sys.stdout.write(render_blocks(blocks).decode())
    return code


def _complain(name: str, body: bytes, pipeline: TargetPipeline, snapshot: Snapshot) -> int:
    def say(text: str) -> None:
        tell(f"map: {name}: {text}")

    if not snapshot.up:
        say(snapshot.reasons.get("scrape", "not understood"))
        return 1
    if not pipeline.runtime:
        say(f"{pipeline.detection}; name it with --runtime")
        return 1
    if cut(body):
        say("no newline at the end: the page may be cut")
    for bad in pipeline.shape.bad_lines:
        say(f"line {bad.number}: {bad.reason}; family {bad.family or '?'} is left out")
    return 0


def _json(name: str, pipeline: TargetPipeline, snapshot: Snapshot) -> dict[str, Any]:
    return {
        "page": name,
        "runtime": pipeline.runtime,
        "detection": pipeline.detection,
        "signals": _rows(snapshot.data),
        "provenance": [
            {
                "signal": one.signal,
                "status": one.status.value,
                "method": one.method.value,
                "source": one.source,
                "scope": one.scope.value,
                "note": one.note,
            }
            for one in snapshot.provenance
        ],
        "unmapped_families": list(pipeline.binding.unmapped) if pipeline.binding else [],
    }


def _rows(block: Block) -> list[dict[str, Any]]:
    return [row for series in block.layout.series if (row := _row(series, block.values)) is not None]


def _row(series: Series, values: Any) -> dict[str, Any] | None:
    labels = dict(series.labels)
    if series.signal.kind is not Kind.HISTOGRAM:
        value = values[series.start]
        return None if is_absent(value) else {"signal": series.signal.name, "labels": labels, "value": value}
    count = values[series.count_index]
    if is_absent(count):
        return None
    total = values[series.sum_index]
    return {
        "signal": series.signal.name,
        "labels": labels,
        "count": count,
        "sum": None if is_absent(total) else total,
        "buckets": {
            ("+Inf" if bound == float("inf") else repr(bound)): values[series.start + place]
            for place, bound in enumerate(series.bounds)
        },
    }
