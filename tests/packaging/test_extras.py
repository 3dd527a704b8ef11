"""Every extra that a message, a page or the image names is one that there is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"(?:inference-sidecar|'\.)\[([\w,]+)\]|^ARG EXTRAS=(\S+)|the extra `(\w+)`", re.MULTILINE)


def test_extras_that_are_named_are_there() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    files = [
        *ROOT.glob("sidecar/**/*.py"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("*.md"),
        ROOT / "Dockerfile",
    ]
    named = {
        extra
        for file in files
        for found in NAMED.findall(file.read_text("utf-8"))
        for extra in "".join(found).split(",")
    }
    assert {"keda", "node", "nvml", "otlp", "rules", "web"} <= named <= set(extras)
