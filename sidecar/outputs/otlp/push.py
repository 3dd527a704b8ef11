"""The thread that pushes: on a fixed grid, whatever the collector does; it shares nothing with the line but the
frozen publication.

A push that fails costs its points and nothing else: values are cumulative, the next one carries them. Each loss
is counted in `sidecar_output_errors_total{output="otlp"}`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from sidecar.config import Otlp
from sidecar.outputs.self_metrics import SelfMetrics
from sidecar.snapshot import Publication

if TYPE_CHECKING:
    from sidecar.outputs.otlp.sender import Sender

log = logging.getLogger(__name__)

_LAST_PUSH_WITHIN = 5.0


class OtlpUnavailable(Exception):
    """OTLP can't be spoken as configured; the message names the cause and the mend."""


class OtlpOutput:
    """Pushes the last publication every `settings.interval` seconds until closed.

    `servers` gives the targets' URLs by name; `instance` is this process' name among others of its kind.
    """

    def __init__(
        self,
        settings: Otlp,
        publication: Callable[[], Publication],
        itself: SelfMetrics,
        servers: Callable[[], dict[str, str]],
        instance: str,
    ) -> None:
        """Raises OtlpUnavailable."""
        if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
            raise OtlpUnavailable("needs the SDK: pip install 'inference-sidecar[otlp]'")
        if settings.tls.insecure_skip_verify:
            raise OtlpUnavailable("tls.insecure_skip_verify isn't accepted: give the collector's ca_file")
        if settings.tls.server_name and settings.protocol == "http":
            raise OtlpUnavailable("tls.server_name works with protocol: grpc alone")
        self._settings = settings
        self._publication = publication
        self._itself = itself
        self._servers = servers
        self._instance = instance
        self._began = time.time()
        self._stopping = threading.Event()
        self._sender: Sender | None = None
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)

    def start(self) -> None:
        self._thread.start()

    async def close(self) -> None:
        """One last push, a few seconds at most; a collector that hangs is left behind."""
        self._stopping.set()
        if self._sender is not None:
            self._sender.hurry()
        await asyncio.to_thread(self._thread.join, _LAST_PUSH_WITHIN)

    def _run(self) -> None:
        from sidecar.outputs.otlp.sender import (
            Sender,  # the SDK and its transport: 10 to 20 MB that only OTLP needs
        )

        self._sender = Sender(self._settings, self._servers, self._began, self._instance)
        due = time.monotonic() + self._settings.interval
        while not self._stopping.wait(max(0.0, due - time.monotonic())):
            self._push()
            due += self._settings.interval * max(1, -(-(time.monotonic() - due) // self._settings.interval))
        self._push()
        self._sender.close()

    def _push(self) -> None:
        assert self._sender is not None
        publication = self._publication()
        if publication.serial == 0:
            return
        try:
            problem = self._sender.send(publication, self._itself)
        except Exception as error:  # whatever an exporter raises: the thread goes on, the loss is counted
            problem = f"{type(error).__name__}: {error}"
        if problem:
            self._itself.output_failed("otlp")
        if bool(problem) != self._failing:
            self._failing = bool(problem)
            where = f"{self._settings.endpoint} ({self._settings.protocol})"
            if problem:
                log.warning("OTLP to %s fails, told once: %s", where, problem)
            else:
                log.info("OTLP to %s works again", where)
