"""A simulation in real time: its clock is the process's, its clients may be real ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from time import monotonic
from types import TracebackType

from sidecar.simulator.replica import Replica
from sidecar.simulator.request import Request
from sidecar.simulator.simulation import Simulation
from sidecar.simulator.traffic import Traffic


class Live:
    """Keeps a simulation at the present: `async with Live(simulation) as live`.

    It sleeps until the next client of the simulated traffic acts; only while somebody follows a request
    (`tokens`) does it wake for every step. Whoever reads the replica calls `touch` first.
    """

    def __init__(self, simulation: Simulation[Replica], clock: Callable[[], float] = monotonic) -> None:
        self.simulation = simulation
        self._clock = clock
        self._zero = clock() - simulation.now
        self._followers = 0
        self._moved = asyncio.Event()  # set and replaced whenever time has moved
        self._disturbed = asyncio.Event()  # something changed: think again about when to wake
        self._task: asyncio.Task[None] | None = None

    @property
    def replica(self) -> Replica:
        return self.simulation.service

    @property
    def now(self) -> float:
        """Seconds of the simulation at present."""
        return self._clock() - self._zero

    def touch(self) -> None:
        """Let everything happen up to now."""
        self.simulation.advance(self.now)

    def disturb(self) -> None:
        """Call after changing the replica by hand (a fault, a new traffic)."""
        self._disturbed.set()

    def play(self, traffic: Traffic | None) -> None:
        """Replace the simulated traffic from now on."""
        self.touch()
        self.simulation.play(traffic)
        self.disturb()

    def submit(self, request: Request) -> bool:
        """Hand in a real client's request now; as `Replica.submit`."""
        self.touch()
        accepted = self.replica.submit(request)
        self.disturb()
        return accepted

    def abort(self, request: Request) -> None:
        """The real client went away."""
        self.touch()
        self.replica.abort(request)
        self.disturb()

    async def tokens(self, request: Request) -> AsyncGenerator[int, None]:
        """The number of tokens that are out for a request, each time that it grows, until the request
        ends."""
        sent = 0
        self._followers += 1
        self.disturb()
        try:
            while True:
                moved = self._moved
                ended = request.outcome is not None
                out = self.replica.generated(request)
                if out > sent:
                    sent = out
                    yield out
                elif ended:
                    return
                else:
                    await moved.wait()
        finally:
            self._followers -= 1

    async def _run(self) -> None:
        while True:
            self.touch()
            self._moved.set()
            self._moved = asyncio.Event()
            self._disturbed.clear()
            wakes = [self.simulation.next_client()]
            if self._followers:
                wakes.append(self.replica.next_event())
            wake = min((at for at in wakes if at is not None), default=None)
            pause = None if wake is None else max(0.0, wake - self.now)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._disturbed.wait()

    async def __aenter__(self) -> Live:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
