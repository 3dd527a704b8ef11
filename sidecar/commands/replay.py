"""`replay`: captured pages in name order through the whole line."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from math import isfinite, isnan
from pathlib import Path

from sidecar.app import registry_of, stages_of
from sidecar.commands.pages import UnreadableError, answer_of, read_file
from sidecar.commands.tell import tell
from sidecar.config import ConfigError, load
from sidecar.outputs.prometheus.page import render_blocks
from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry
from sidecar.schema import PREFIX, SIGNALS, Kind
from sidecar.snapshot import Series, Snapshot

NAME = "replay"
HELP = "captured pages through the whole line"

PAGE_ENDINGS = (".txt", ".prom", ".txt.gz", ".prom.gz")
INDEX = "index.csv"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="folder of pages, as `record` writes it")
    parser.add_argument(
        "--interval", type=float, metavar="SECONDS", help="time between pages (default: by index.csv, else 1)"
    )
    parser.add_argument("--runtime", default="auto")
    parser.add_argument("--config", metavar="FILE", help="objectives and settings to replay with")
    parser.add_argument(
        "--csv", nargs="+", metavar="SIGNAL", help="these signals over time, instead of the last page"
    )


def run(options: argparse.Namespace) -> int:
    folder = Path(options.folder)
    pages = sorted(path for path in folder.glob("*") if path.name.endswith(PAGE_ENDINGS))
    if not pages:
        tell(f"replay: {folder}: no page ({', '.join(PAGE_ENDINGS)}) in it")
        return 2
    try:
        config = load(Path(options.config) if options.config else None)
        registry = registry_of(config)
    except ConfigError as error:
        tell(error)
        return 2
    try:
        times = _times(folder, options.interval)
    except (OSError, ValueError, csv.Error) as error:
        tell(f"replay: {folder / INDEX}: {error}")
        return 2
    if fault := _fault(options, registry):
        tell(f"replay: {fault}")
        return 2
    pipeline = TargetPipeline(Settings(runtime=options.runtime), registry, stages_of(config))
    writer = csv.writer(sys.stdout) if options.csv else None
    if writer is not None:
        writer.writerow(["time", "page", *options.csv])
    snapshot: Snapshot | None = None
    code = 0
    for place, page in enumerate(pages):
        time = times.get(page.name, place * (options.interval or 1.0))
        try:
            answer = answer_of(read_file(str(page)))
        except UnreadableError as error:
            answer = Answer(error="http_error", detail=str(error))
        snapshot = pipeline.feed({"metrics": answer}, time=time, mono=time)
        if not snapshot.up:
            code = 1
            tell(f"replay: {page.name}: {snapshot.reasons.get('scrape', '')}")
        elif not pipeline.runtime:
            code = 1
            tell(f"replay: {page.name}: {pipeline.detection}; name it with --runtime")
        if writer is not None:
            writer.writerow([f"{time:g}", page.name, *(_cell(snapshot, name) for name in options.csv)])
    if writer is None and snapshot is not None:
        sys.stdout.write(render_blocks(snapshot.blocks).decode())
    return code


def _fault(options: argparse.Namespace, registry: Registry) -> str:
    """What is wrong with the command line, beside its files; empty when nothing is."""
    if options.interval is not None and not 0 < options.interval < float("inf"):
        return "--interval must be above 0"
    if options.runtime != "auto" and options.runtime not in registry.names:
        return f"unknown runtime {options.runtime}; known: {', '.join(registry.names)}"
    for asked in options.csv or ():
        name = asked.partition("{")[0].removeprefix(PREFIX).partition(".")[0]
        if name not in SIGNALS:
            near = get_close_matches(name, SIGNALS, n=1, cutoff=0.0)[0]
            return f"there is no signal {name}; the nearest is {near}"
    return ""


def _times(folder: Path, interval: float | None) -> dict[str, float]:
    """Time of each page by the folder's index; empty when there is none or an interval is given.

    Raises OSError, ValueError or csv.Error when it can't be read.
    """
    index = folder / INDEX
    if interval is not None or not index.exists():
        return {}
    return dict(_rows(index))


def _rows(index: Path) -> Iterator[tuple[str, float]]:
    with index.open(newline="") as lines:
        for row in csv.DictReader(lines):
            name = row.get("file") or row.get("page") or row.get("name")
            moment = row.get("epoch") or row.get("time")
            if name and moment:
                yield Path(name).name, _moment(moment)


def _moment(text: str) -> float:
    """Seconds. Raises ValueError."""
    try:
        if isfinite(time := float(text)):
            return time
    except ValueError:
        pass
    raise ValueError(f"{text[:40]!r} is no time in seconds")


def _cell(snapshot: Snapshot, asked: str) -> str:
    """A signal's value, summed over its series; `name.sum` is a histogram's sum; empty where absent."""
    name, _, part = asked.removeprefix("inference_").partition(".")
    found = [
        block.values[_place(series, part)]
        for block in snapshot.blocks
        for series in block.layout.by_signal.get(name.partition("{")[0], ())
        if _labels_match(series.labels, name)
    ]
    present = [value for value in found if not isnan(value)]
    return f"{sum(present):g}" if present else ""


def _place(series: Series, part: str) -> int:
    if series.signal.kind is not Kind.HISTOGRAM:
        return series.start
    return series.sum_index if part == "sum" else series.count_index


def _labels_match(labels: tuple[tuple[str, str], ...], asked: str) -> bool:
    """`requests_total{outcome=success}` asks for the series with that label."""
    _, brace, rest = asked.partition("{")
    if not brace:
        return True
    wanted = dict(pair.partition("=")[::2] for pair in rest.rstrip("}").split(","))
    own = dict(labels)
    return all(own.get(key) == value.strip('"') for key, value in wanted.items())
