"""The child process: loads NVML, answers each line on its stdin with one JSON line on its stdout.

A stuck driver call, a replaced driver library, a leak of the driver: all end with the child, which the
sidecar starts anew. It is exec'd, since NVML does not survive a fork. When its stdin ends, so does it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from sidecar.gpu.nvml.asker import LostGpu, code_of
from sidecar.gpu.nvml.device import Gpu
from sidecar.gpu.nvml.events import XidWatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RETRY_HANDLE = 60.0


class Reader:
    """NVML from its initialisation to its shutdown: once a child."""

    def __init__(self, nvml: Any, options: dict[str, Any]) -> None:
        self._nvml = nvml
        self._options = options
        self._clock = time.monotonic
        self._system: dict[str, Any] | None = None
        self._count = -1
        self._gpus: dict[int, Gpu] = {}
        self._shut: dict[int, tuple[int, float]] = {}  # handles that weren't given: code, when to ask again
        self._xids: XidWatch | None = None

    def read(self) -> dict[str, Any]:
        """One pass over all GPUs. `init` or `count` with a code when there is nothing to read at all."""
        if self._system is None:
            try:
                self._nvml.nvmlInit()
            except Exception as error:
                return {"init": code_of(error), "text": str(error)}
            self._system = self._versions()
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except Exception as error:
            return {"count": code_of(error), "text": str(error)}
        if count != self._count:  # indexes have moved
            self._close_gpus()
            self._count = count
        entries = [self._entry(index) for index in range(count)]
        answer = {"system": self._system, "devices": count, "gpus": entries, "rss": _rss()}
        return answer | self._events()

    def _versions(self) -> dict[str, Any]:
        found: dict[str, Any] = {"host_pids": _sees_host_pids()}
        # Not CudaDriverVersion_v2, which needs libcuda: a utility-only container hasn't got it.
        for name, function in (("driver", "DriverVersion"), ("cuda", "CudaDriverVersion")):
            try:
                found[name] = getattr(self._nvml, f"nvmlSystemGet{function}")()
            except Exception:
                continue
        return found

    def _entry(self, index: int) -> dict[str, Any]:
        gpu = self._gpus.get(index)
        if gpu is None:
            code, due = self._shut.get(index, (0, 0.0))
            if self._clock() < due:
                return {"index": index, "handle": code}
            try:
                gpu = Gpu(self._nvml, index, self._handle(index), self._options, self._clock)
            except LostGpu as error:
                code = error.code
            except Exception as error:
                code = code_of(error)
            if gpu is None:
                self._shut[index] = code, self._clock() + RETRY_HANDLE
                return {"index": index, "handle": code}
            self._gpus[index] = gpu
            self._shut.pop(index, None)
        try:
            return gpu.read()
        except LostGpu as error:
            return {"index": index, "uuid": gpu.uuid, "facts": gpu.facts, "lost": error.code}

    def _handle(self, index: int) -> Any:
        # By index: a look-up by UUID touches every GPU and fails when any of them is lost.
        return self._nvml.nvmlDeviceGetHandleByIndex(index)

    def _events(self) -> dict[str, Any]:
        if not self._options.get("events", True):
            return {}
        if self._xids is None:
            self._xids = XidWatch(self._nvml)
            self._xids.start()
        self._xids.watch({gpu.uuid: gpu.handle for gpu in self._gpus.values()})
        return {"xids": self._xids.take(), "watched": list(self._xids.watched)}

    def _close_gpus(self) -> None:
        for gpu in self._gpus.values():
            gpu.close()
        self._gpus.clear()
        self._shut.clear()

    def close(self) -> None:
        """Let the GPUs go, so that they can be reset."""
        if self._xids is not None:
            self._xids.end()
        if self._system is not None:
            self._close_gpus()
            self._nvml.nvmlShutdown()


def _sees_host_pids() -> bool:
    """Whether this is the first pid namespace: NVML lists processes by their pid there, or not at all."""
    try:
        return os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"  # noqa: PTH115 - pathlib is large
    except OSError:
        return False


def _rss() -> int:
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - pathlib is large
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # nothing that a library prints may get between the answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the sidecar ends its child itself
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    options = json.loads(sys.argv[1])
    sys.path.append(options["binding"])
    reader = None
    try:
        import pynvml

        reader = Reader(pynvml, options)
        while sys.stdin.buffer.readline():
            answer = reader.read()
            answers.write(json.dumps(answer, separators=(",", ":")).encode() + b"\n")
            if "init" in answer:
                break
    except Exception as error:
        answers.write(json.dumps({"error": f"{type(error).__name__}: {error}"}).encode() + b"\n")
    finally:
        if reader is not None:
            reader.close()


if __name__ == "__main__":
    main()
