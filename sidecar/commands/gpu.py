"""`gpu`: one pass over the GPUs, and what was not available and why."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable

from sidecar.commands.tell import folded, tell
from sidecar.config import Config, ConfigError, ConfigFile
from sidecar.gpu.reading import GpuNote, GpuReading
from sidecar.gpu.source import open_source
from sidecar.outputs.prometheus.page import render_blocks
from sidecar.snapshot import Block, is_absent
from sidecar.targets.fetch import Fetcher

NAME = "gpu"
HELP = "one pass over the GPUs"

#: GPM measures between two passes: the second one has what the first could not.
BETWEEN_PASSES = 0.25

SWITCHED_OFF = "GPUs are switched off by the config: gpu.source is none"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="config file; its section gpu is used")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override a key, e.g. gpu.source=dcgm"
    )
    parser.add_argument("--json", action="store_true", help="the same as --format json")
    parser.add_argument(
        "--format", choices=["table", "text", "json"], default="table", help="text is the exposition page"
    )


def run(options: argparse.Namespace) -> int:
    """0: read, or switched off by the config. 1: no GPU could be read. 2: can't be used as asked."""
    try:
        config = ConfigFile(options.config, options.set).config
        switched_off = config.gpu.source == "none"
        reading = asyncio.run(_read(config))
    except ConfigError as error:
        tell(error)
        return 2
    except ValueError as error:
        tell(f"gpu: {error}")
        return 2
    fine = reading.ok or switched_off
    form = "json" if options.json else options.format
    if form == "text":
        sys.stdout.write(render_blocks([reading.block]).decode())
    elif form == "json":
        print(json.dumps({"ok": fine, **_json(reading)}, indent=2))
    else:
        print(SWITCHED_OFF if switched_off else table(reading))
    if form == "text":
        for line in _why(reading.notes, {}):
            tell(f"gpu: {line}")
    return 0 if fine else 1


async def _read(config: Config) -> GpuReading:
    gpu = config.gpu
    loop = asyncio.get_running_loop()
    async with Fetcher("gpu") as fetcher:

        async def fetch(url: str, seconds: float) -> bytes:
            return (await fetcher.get(url, deadline=loop.time() + seconds)).body

        source = open_source(
            gpu.source,
            interval=gpu.interval,
            url=gpu.url,
            devices=gpu.devices,
            optional=gpu.optional,
            targets=[target.name for target in config.targets] or ["local"],
            pod_resources_socket=gpu.pod_resources_socket,
            fetch=fetch,
        )
        try:
            reading = await source.read(gpu.timeout)
            if reading.ok and reading.source == "nvml":
                await asyncio.sleep(BETWEEN_PASSES)
                reading = await source.read(gpu.timeout)
        finally:
            await source.close()
    return reading


def _json(reading: GpuReading) -> dict[str, object]:
    return {
        "source": reading.source,
        "time": reading.time,
        "series": [
            {
                "signal": series.signal.name,
                "labels": dict(series.labels),
                "value": reading.block.values[series.start],
            }
            for series in reading.block.layout.series
            if not is_absent(reading.block.values[series.start])
        ],
        "not_available": [
            {"gpu": note.gpu, "what": note.what, "reason": note.reason, "detail": note.detail}
            for note in reading.notes
        ],
    }


_COLUMNS = ("GPU", "up", "busy", "SM", "memory", "power", "temp", "energy", "used by")


def table(reading: GpuReading) -> str:
    """The GPUs by number, a line for each one or instance, then what was not available and why: 80 columns."""
    block = reading.block
    names = _names(block)
    lines = [f"source {reading.source}: {'ok' if reading.ok else 'failed'}"]
    lines += [f"GPU {name}: {' '.join(_known_as(block, uuid))}" for uuid, name in names.items()]
    if names:
        rows = [_COLUMNS, *_rows(block, names)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
        lines += [
            "",
            *(
                "  ".join(cell.ljust(at) for cell, at in zip(row, widths, strict=True)).rstrip()
                for row in rows
            ),
        ]
    else:
        lines.append("no GPU")
    lines += [""] if names and reading.notes else []
    return "\n".join([*lines, *map(folded, _why(reading.notes, names))])


def _names(block: Block) -> dict[str, str]:
    """UUID → the number that it goes by here: its index, or its place where no index is known."""
    uuids = sorted({uuid for series in block.layout.series if (uuid := series.label("gpu_uuid"))})
    index = {one.label("gpu_uuid"): one.label("index") for one in block.layout.find("gpu_info")}
    found = {uuid: index.get(uuid) or f"#{place}" for place, uuid in enumerate(uuids)}
    return dict(sorted(found.items(), key=lambda pair: (len(pair[1]), pair[1])))


def _known_as(block: Block, uuid: str) -> Iterable[str]:
    return [uuid, *(one.label("name") for one in block.layout.find("gpu_info", gpu_uuid=uuid))]


def _rows(block: Block, names: dict[str, str]) -> Iterable[tuple[str, ...]]:
    places = {
        (series.label("gpu_uuid"), series.label("gpu_instance"))
        for series in block.layout.series
        if series.label("gpu_uuid")
    }
    order = list(names)
    for uuid, instance in sorted(places, key=lambda one: (order.index(one[0]), one[1])):
        board = not instance

        def get(signal: str, *, leaf: bool = False, uuid: str = uuid, instance: str = instance) -> float:
            if leaf:
                return block.get(signal, gpu_uuid=uuid, gpu_instance=instance)
            return block.get(signal, gpu_uuid=uuid) if not instance else float("nan")

        users = [
            series.label("target") or series.label("pod")
            for series in block.layout.find("gpu_allocation_info", gpu_uuid=uuid, gpu_instance=instance)
        ]
        yield (
            names[uuid] if board else f"{names[uuid]}/{instance}",
            {0.0: "no", 1.0: "yes"}.get(get("gpu_up"), ""),
            _text(get("gpu_utilization_ratio"), "{:.0%}"),
            _text(get("gpu_sm_active_ratio", leaf=True), "{:.0%}"),
            _share(get("gpu_memory_used_bytes", leaf=True), get("gpu_memory_total_bytes", leaf=True)),
            _text(get("gpu_power_watts"), "{:.0f}") + _text(get("gpu_power_limit_watts"), "/{:.0f} W"),
            _text(get("gpu_temperature_celsius"), "{:.0f} °C"),
            _text(get("gpu_energy_joules_total") / 3.6e6, "{:.2f} kWh"),
            ", ".join(users),
        )


def _text(value: float, form: str) -> str:
    return "" if is_absent(value) else form.format(value)


def _share(used: float, total: float) -> str:
    return _text(used / 2**30, "{:.1f}") + _text(total / 2**30, "/{:.1f} GiB")


def _why(notes: Iterable[GpuNote], names: dict[str, str]) -> list[str]:
    """What is not there: the same readings of several GPUs for the same reason are said once. Without `names`
    a GPU goes by its UUID."""
    missing: dict[tuple[str, str], dict[str, None]] = {}
    for note in notes:
        missing.setdefault((note.gpu, note.detail or note.reason), {})[note.what] = None
    lacking: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for (gpu, detail), what in missing.items():
        lacking.setdefault((tuple(what), detail), []).append(names.get(gpu, gpu))
    of = " of GPU" if names else " of"
    return [
        f"not available{f'{of} {named}' if (named := ', '.join(filter(None, gpus))) else ''}: "
        f"{', '.join(what)} ({detail})"
        for (what, detail), gpus in lacking.items()
    ]
