"""`simulate --policy FILE --traffic NAME|DIR`: what a ScaledObject would make of a traffic, before production."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from difflib import get_close_matches
from math import isnan, nan
from pathlib import Path

from sidecar.autoscale.compared import DEMAND
from sidecar.autoscale.loop import Run, Tuning, tuning
from sidecar.autoscale.loop import run as play
from sidecar.autoscale.objectives import GOAL, Objectives
from sidecar.autoscale.oracle import Oracle, oracle
from sidecar.autoscale.picture import svg
from sidecar.autoscale.policy import Policy, PolicyError, read_policies
from sidecar.autoscale.recorded import Moment, RecordingError, scene_of
from sidecar.autoscale.report import write_report
from sidecar.autoscale.table import Row, table
from sidecar.autoscale.traffics import SCENES, Scene
from sidecar.autoscale.verdict import judge
from sidecar.commands.pages import UnreadableError, answer_of, read_file
from sidecar.commands.tell import tell
from sidecar.config import Config, ConfigError, load
from sidecar.config.quantities import parse_duration
from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.registry import Registry
from sidecar.signals import Signals
from sidecar.snapshot import Block

NAME = "simulate"
HELP = "a ScaledObject against a traffic in simulated time: objectives kept, replica-hours, flaps"

PAGE_ENDINGS = (".txt", ".prom", ".txt.gz", ".prom.gz")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--policy",
        type=Path,
        metavar="FILE",
        help="a ScaledObject; without one, replica demand with defaults",
    )
    parser.add_argument(
        "--traffic",
        action="append",
        metavar="NAME|DIR",
        help="a built-in one (--list shows them; step unless given), or a folder of pages as `record` writes "
        "them; may be repeated",
    )
    parser.add_argument(
        "--interval",
        type=_duration,
        default=2.0,
        help="time between a folder's pages where no index.csv tells it (2s)",
    )
    parser.add_argument("--times", type=float, default=1.0, metavar="N", help="N times a folder's requests")
    parser.add_argument("--cold-start", type=_duration, metavar="TIME", help="of a replica, e.g. 5m")
    parser.add_argument(
        "--config", metavar="FILE", help="the sidecars' config: objectives, utilisation, drain"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the arrivals (1)")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="write the last run as SVG")
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    parser.add_argument("--list", action="store_true", help="print the traffics and end")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="runs of each cell of --report (3)")
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="every traffic under every policy, as Markdown; about two hours of a core",
    )


def run(options: argparse.Namespace) -> int:
    """0: simulated. 2: the policy, the traffic or the config can't be used."""
    if options.list:
        for scene in SCENES.values():
            print(f"{scene.name:16} {scene.what}")
        return 0
    if options.report is not None:
        write_report(
            options.report,
            seeds=range(1, options.seeds + 1),
            progress=lambda what: print(what, file=sys.stderr, flush=True),
        )
        return 0
    try:
        policies = read_policies(options.policy) if options.policy is not None else [DEMAND]
        tuned = _tuning(load(options.config))
        scenes = [_scene(name, options, tuned.objectives) for name in options.traffic or ["step"]]
    except ConfigError as error:
        tell(error)
        return 2
    except (PolicyError, RecordingError, UnreadableError) as error:
        tell(f"simulate: {error}")
        return 2
    rows: list[Row] = []
    with ProcessPoolExecutor(1) as beside:
        plans = [beside.submit(oracle, scene, tuned.objectives, seed=options.seed) for scene in scenes]
        for scene, plan in zip(scenes, plans, strict=True):
            runs = [_played(scene, policy, tuned, options) for policy in policies]
            rows += [_judged(ran, plan.result(), options) for ran in runs]
    if options.json:
        print(json.dumps([{"traffic": s, "policy": p, **asdict(v)} for s, p, v in rows], indent=2))
    else:
        print(table(rows), end="")
    return 0


def _played(scene: Scene, policy: Policy, tuned: Tuning, options: argparse.Namespace) -> Run:
    return play(scene, policy, tuned, seed=options.seed, progress=_bar(scene, policy))


def _judged(ran: Run, plan: Oracle, options: argparse.Namespace) -> Row:
    scene = ran.scene
    if plan.attained < GOAL:
        tell(
            f"simulate: {scene.name}: no plan was found that keeps the objectives; cost is against one that keeps"
            f" {plan.attained:.3f}"
        )
    verdict = judge(ran, plan)
    if options.picture is not None:
        options.picture.write_text(svg(ran, verdict, plan), "utf-8")
    return scene.name, ran.policy.name, verdict


def _bar(scene: Scene, policy: Policy) -> Callable[[float], None] | None:
    """A progress bar, on a terminal only."""
    if not sys.stderr.isatty():
        return None

    def progress(second: float) -> None:
        share = second / scene.seconds
        bar = "#" * round(30 * share)
        end = "\r" if share < 1 else "\n"
        print(
            f"{scene.name:.16} / {policy.name:.22} [{bar:30}] {share:4.0%}",
            end=end,
            file=sys.stderr,
            flush=True,
        )

    return progress


def _tuning(config: Config) -> Tuning:
    """The sidecars' settings. The run's objectives are the config's on first tokens and gaps, else 1.5 s and
    50 ms, 95 % each."""
    objectives = Objectives()
    for slo in config.slos:
        if slo.threshold is None:
            continue
        if slo.signal == "time_to_first_token":
            objectives = replace(objectives, first_token=slo.threshold)
        elif slo.signal == "inter_token_latency":
            objectives = replace(objectives, gap=slo.threshold, budget=1 - slo.objective)
    scaling = config.autoscaling
    return tuning(
        objectives, target_utilisation=scaling.target_utilisation, drain_target=scaling.drain_target
    )


def _scene(name: str, options: argparse.Namespace, objectives: Objectives) -> Scene:
    if name in SCENES:
        scene = SCENES[name]
    elif Path(name).is_dir():
        moments = _recording(Path(name), options.interval)
        scene = scene_of(Path(name).name, moments, times=options.times, objectives=objectives)
    else:
        near = "".join(f"; the nearest is {one}" for one in get_close_matches(name, SCENES, n=1))
        raise RecordingError(f"{name} is no folder and no traffic{near}; --list shows all")
    return scene if options.cold_start is None else replace(scene, cold_start=options.cold_start)


def _recording(folder: Path, interval: float) -> list[Moment]:
    """The counters of a folder's pages, in name order."""
    pages = sorted(path for path in folder.glob("*") if path.name.endswith(PAGE_ENDINGS))
    if not pages:
        raise RecordingError(f"{folder}: no page ({', '.join(PAGE_ENDINGS)}) in it")
    times = _times(folder)
    pipeline = TargetPipeline(Settings(), Registry(), [Signals()])
    moments = []
    for place, page in enumerate(pages):
        second = times.get(page.name, place * interval)
        snapshot = pipeline.feed({"metrics": answer_of(read_file(str(page)))}, time=second, mono=second)
        counters = [
            _total(snapshot.blocks, signal)
            for signal in (
                "arrivals_total",
                "requests_total",
                "prompt_tokens_total",
                "generation_tokens_total",
            )
        ]
        if not any(map(isnan, counters)):
            moments.append(Moment(second, *counters))
    return moments


def _times(folder: Path) -> dict[str, float]:
    """When each page was read, by the index that `record` writes; empty without one."""
    try:
        with (folder / "index.csv").open(newline="") as lines:
            return {row["file"]: float(row["epoch"]) for row in csv.DictReader(lines)}
    except (OSError, KeyError, ValueError):
        return {}


def _total(blocks: tuple[Block, ...], signal: str) -> float:
    """A counter over all of its series; NaN where there is none."""
    found = [
        value
        for block in blocks
        for series in block.layout.by_signal.get(signal, ())
        if not isnan(value := block.values[series.start])
    ]
    return sum(found) if found else nan


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
