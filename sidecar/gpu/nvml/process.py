"""Supervision of the NVML child: start, ask, kill at the deadline."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

#: The longest answer of a child: 32 GPUs with seven slices each are a tenth of it.
MAX_ANSWER = 1 << 20

_ROOT = str(Path(__file__).resolve().parents[3])
_START = f"import sys; sys.path.append({_ROOT!r}); from sidecar.gpu.nvml.child import main; main()"


class ChildFailed(Exception):
    """The child has died or made no sense; it is gone."""


class Child:
    """One child process. It is isolated from the environment's Python settings and loads no site packages."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.pid: int = process.pid

    @classmethod
    async def start(cls, options: dict[str, Any], environ: Mapping[str, str] | None = None) -> Child:
        """Raises OSError. `environ` is the child's, else this process's; LD_LIBRARY_PATH finds the driver."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", _START, json.dumps(options)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env=environ,
            limit=MAX_ANSWER,
        )
        return cls(process)

    async def ask(self, deadline: float) -> dict[str, Any]:
        """One pass. Raises TimeoutError and ChildFailed; the child is killed then, and when cancelled."""
        try:
            async with asyncio.timeout(deadline):
                return await self._exchange()
        except BaseException:
            await self.kill()
            raise

    async def _exchange(self) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(b"\n")
            await self._process.stdin.drain()
            line = await self._process.stdout.readline()
            answer = json.loads(line)
        except (OSError, ValueError) as error:
            raise ChildFailed(f"the NVML child gave no answer: {error}") from None
        if not isinstance(answer, dict) or "error" in answer:
            raise ChildFailed(f"the NVML child failed: {answer}"[:500])
        return answer

    async def end(self, grace: float = 2.0) -> None:
        """Close its stdin, so that it shuts NVML down; kill it when it doesn't."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(grace):
                await self._process.wait()
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """A process that is stuck in the driver may not even die: it isn't waited for long."""
        with suppress(ProcessLookupError):
            self._process.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self._process.wait()
