"""Applies the rule of allocation at each pass; looks at the engine's environment and the kubelet seldom."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

from sidecar.gpu.allocation import Allocation, Claim, Leaf, Rule, allocate, allocation_rows, device_ids
from sidecar.gpu.reading import Row

log = logging.getLogger(__name__)

LOOK_EVERY = 30.0
VARIABLES = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")

Kubelet = Callable[[], Awaitable[tuple[Claim, ...]]]


class Owners:
    """Who has which GPU, by one rule. `kubelet` lists the devices of the node's pods (node mode)."""

    def __init__(
        self,
        rule: Rule,
        *,
        kubelet: Kubelet | None = None,
        proc: Path = Path("/proc"),
        mono: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rule = rule
        self._kubelet = kubelet
        self._proc = proc
        self._mono = mono
        self._looked: float | None = None
        self._claims: tuple[Claim, ...] = ()
        self._engine: tuple[str, ...] = ()
        self._why = ""
        self._ever_shown: set[str] = set(self.expected)

    @property
    def expected(self) -> tuple[str, ...]:
        """UUIDs of the GPUs that the configuration names: when one isn't there, it is down."""
        named = self.rule.devices if isinstance(self.rule.devices, tuple) else ()
        return tuple(device for device in named if device.startswith("GPU-"))

    async def allocation(self, leaves: Sequence[Leaf], claims: Sequence[Claim] = ()) -> Allocation:
        """`claims` are what the source's own page says."""
        found = self._allocate(leaves, claims)
        now = self._mono()
        if (self._kubelet or not found.pairs) and (self._looked is None or now - self._looked >= LOOK_EVERY):
            self._looked = now
            await self._look()
            found = self._allocate(leaves, claims)
        self._ever_shown |= found.only or frozenset()
        if self._why and not found.pairs:
            return Allocation((), found.only, self._why)
        return found

    def _allocate(self, leaves: Sequence[Leaf], claims: Sequence[Claim]) -> Allocation:
        return allocate(leaves, self.rule, claims=(*claims, *self._claims), engine=self._engine)

    async def _look(self) -> None:
        if self._kubelet is not None:
            try:
                self._claims, self._why = await self._kubelet(), ""
            except Exception as error:  # whatever the socket, gRPC or the kubelet does
                why = f"the kubelet's list of devices: {error}"
                if why != self._why:
                    log.warning("no owners of GPUs from the kubelet: %s", error)
                self._claims, self._why = (), why
        elif self.rule.devices in ("auto", "env"):
            self._engine = await asyncio.to_thread(engine_devices, self._proc)

    def shown(self, rows: Iterable[Row], allocation: Allocation) -> list[Row]:
        """The rows of the GPUs that are to be shown, and their allocation."""
        only = allocation.only
        kept = [one for one in rows if only is None or dict(one[1]).get("gpu_uuid", "") in only or not one[1]]
        return kept + allocation_rows(allocation)

    def concerns(self, uuid: str) -> bool:
        """Whether a GPU that may be lost, so that its instances aren't known any more, is one to show."""
        return not isinstance(self.rule.devices, tuple) or uuid in self._ever_shown


def engine_devices(proc: Path) -> tuple[str, ...]:
    """Device ids in the environment of the other processes that can be seen (a shared process namespace).

    A process whose environment may not be read is passed over.
    """
    found: dict[str, None] = {}
    for folder in proc.glob("[0-9]*"):
        try:
            text = (folder / "environ").read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        for variable in text.split("\0"):
            name, _, value = variable.partition("=")
            if name in VARIABLES:
                found |= dict.fromkeys(device_ids(value))
    return tuple(found)
