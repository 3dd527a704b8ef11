"""`make bench`: measures, prints, and writes benchmarks/RESULTS.md. `--smoke` runs the smallest part once."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
from pathlib import Path

from benchmarks import micro, peers, runtimes, slo

RESULTS = Path(__file__).parent / "RESULTS.md"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--smoke", action="store_true", help="the smallest page once; nothing is written")
    parser.add_argument("--seconds", type=float, default=30.0, help="length of the comparison of processes")
    options = parser.parse_args()
    if options.smoke:
        print(_micro(micro.measure([500])), slo.section(slo.measure(2, ticks=5)))
        return
    parts = (
        _head(),
        _micro(micro.measure()),
        runtimes.section(),
        slo.section(slo.measure()),
        _peers(*peers.measure(options.seconds)),
    )
    text = "".join(parts)
    RESULTS.write_text(text)
    print(text)


def _head() -> str:
    when = datetime.datetime.now(datetime.UTC).date().isoformat()
    return (
        "# What it costs\n\n"
        f"{when}, {os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}."
        " Ratios of one run: compare them, not the milliseconds, with another machine's."
        " `make bench` writes this page.\n\n"
    )


def _micro(rows: list[micro.Row]) -> str:
    lines = ["## CPU a page\n", "| step | lines of the page | ms | ratio |", "|---|---|---|---|"]
    for row in rows:
        ratio = f"{row.ratio:.3f} × {row.peer}" if row.ratio else ""
        lines.append(f"| {row.what} | {row.lines} | {row.milliseconds:.3f} | {ratio} |")
    return "\n".join(lines) + "\n\n"


def _peers(costs: list[peers.Cost], size: int) -> str:
    ours = next(cost for cost in costs if cost.name == "sidecar")
    lines = [
        "## The whole process\n",
        f"Eight vLLM pages of {size / 1000:.0f} kB, each scraped every second by all of them, side by side."
        " The sidecar parses, maps, keeps history, judges four objectives a target;"
        " the others store or forward.\n",
        "| | CPU ms a page | RSS MiB | sidecar's CPU ÷ its | sidecar's RSS ÷ its |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {cost.name} | {cost.milliseconds_a_page:.2f} | {cost.rss_mib:.0f} |"
        f" {ours.cpu_seconds / cost.cpu_seconds:.2f} | {ours.rss_mib / cost.rss_mib:.2f} |"
        for cost in costs
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
