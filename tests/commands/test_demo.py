"""The demo as a newcomer sees it: addresses, moving numbers, a clean end; within 80 columns."""

from __future__ import annotations

import re
import subprocess
import sys


def test_the_demo_shows_moving_numbers() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "sidecar.cli", "demo", "--for", "7s", "--listen", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stderr == ""
    lines = shown.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(re.search(r"http://127\.0\.0\.1:\d+/metrics", line) for line in lines)
    rows = [line.split() for line in lines if re.match(r"\s+\d+ s ", line)]
    assert len(rows) >= 3
    tokens = [row[5] for row in rows if row[5] != "-"]
    assert len(set(tokens)) > 1, rows
