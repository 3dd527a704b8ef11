"""`record`: capture pages of a target, one file each, with an index of when and how they came."""

from __future__ import annotations

import argparse
import asyncio
import csv
import time
from pathlib import Path

from sidecar.commands.tell import tell
from sidecar.config.quantities import parse_duration
from sidecar.targets.failure import FetchError
from sidecar.targets.fetch import Fetcher

NAME = "record"
HELP = "capture pages of a target, one file each"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", required=True, metavar="URL", help="the metrics page")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder to write to; made if missing")
    parser.add_argument("--every", default="1s", help="time between pages (default: 1s)")
    parser.add_argument("--count", type=int, default=30, help="number of pages (default: 30)")


def run(options: argparse.Namespace) -> int:
    try:
        every = parse_duration(options.every)
    except ValueError as error:
        tell(f"record: --every {options.every}: {error}")
        return 2
    if options.count < 1 or every <= 0:
        tell("record: --count and --every must be above 0")
        return 2
    out = Path(options.out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        tell(f"record: {out}: {error.strerror}")
        return 2
    failed = asyncio.run(_record(options.target, out, every, options.count))
    tell(f"record: {options.count - failed} of {options.count} pages in {out}")
    return 1 if failed else 0


async def _record(url: str, out: Path, every: float, count: int) -> int:
    """Fetch and write; returns how many fetches failed. They are rows of the index, too."""
    failed = 0
    loop = asyncio.get_running_loop()
    start = loop.time()
    with (out / "index.csv").open("w", newline="") as lines:
        index = csv.writer(lines)
        index.writerow(["file", "epoch", "result", "ms", "bytes"])
        async with Fetcher("record") as fetcher:
            for place in range(count):
                await asyncio.sleep(max(0.0, start + place * every - loop.time()))
                name, epoch, began = f"{place:04d}.txt", time.time(), loop.time()
                try:
                    page = await fetcher.get(url, deadline=began + max(every, 5.0))
                    (out / name).write_bytes(page.body)
                    result, size = "ok", len(page.body)
                except FetchError as error:
                    result, size = error.result, 0
                    failed += 1
                    tell(f"record: {name}: {error.detail}")
                index.writerow([name, f"{epoch:.3f}", result, f"{(loop.time() - began) * 1e3:.1f}", size])
                lines.flush()
    return failed
