"""The benchmarks still run; what they measure is nobody's business here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_smallest_part_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--smoke"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "whole tick, warm" in done.stdout
