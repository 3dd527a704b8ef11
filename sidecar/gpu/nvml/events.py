"""Xid events: waited for in a thread of the child, since NVML tells none of the past."""

from __future__ import annotations

import ctypes
import threading
import time

from sidecar.gpu.nvml.asker import code_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

XID = 0x8
TIMEOUT = 10
WAIT_MS = 100


class XidWatch(threading.Thread):
    """Collects Xid events of the watched GPUs; `take` hands them over.

    A GPU that can't be registered (vGPU, WSL) isn't in `watched`: its counter is absent then, not 0.
    """

    def __init__(self, nvml: Any) -> None:
        super().__init__(daemon=True)
        self._nvml = nvml
        self._wanted: dict[str, Any] = {}
        self._changed = threading.Event()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._found: list[list[Any]] = []
        self.watched: tuple[str, ...] = ()

    def watch(self, handles: dict[str, Any]) -> None:
        """Handles by UUID; called at each pass, acts when they change."""
        if handles.keys() != self._wanted.keys():
            self._wanted = handles
            self._changed.set()

    def take(self) -> list[list[Any]]:
        """`[uuid, code, Unix time]` of each event since the last call."""
        with self._lock:
            found, self._found = self._found, []
        return found

    def run(self) -> None:
        while not self._ended.is_set():
            self._changed.wait(WAIT_MS / 1000)
            if not self._changed.is_set():
                continue
            self._changed.clear()
            try:
                events = self._nvml.nvmlEventSetCreate()
            except Exception:
                return
            try:
                self._listen(events, self._register(events, self._wanted))
            finally:
                self.watched = ()
                self._nvml.nvmlEventSetFree(events)

    def _register(self, events: Any, wanted: dict[str, Any]) -> dict[int | None, str]:
        names: dict[int | None, str] = {}
        for uuid, handle in wanted.items():
            try:
                self._nvml.nvmlDeviceRegisterEvents(handle, XID, events)
            except Exception:
                continue
            names[_address(handle)] = uuid
        self.watched = tuple(names.values())
        return names

    def _listen(self, events: Any, names: dict[int | None, str]) -> None:
        while names and not self._ended.is_set() and not self._changed.is_set():
            try:
                event = self._nvml.nvmlEventSetWait_v2(events, WAIT_MS)
            except Exception as error:
                if code_of(error) == TIMEOUT:
                    continue
                self._ended.wait(1.0)  # a GPU was lost: register the others anew
                self._changed.set()
                return
            uuid = names.get(_address(event.device))
            if uuid is not None and event.eventType == XID:
                with self._lock:
                    self._found.append([uuid, int(event.eventData), time.time()])

    def end(self) -> None:
        self._ended.set()
        self._changed.set()
        self.join(2 * WAIT_MS / 1000)


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
