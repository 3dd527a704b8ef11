"""A listening socket with room for so many connections: when it is full, who keeps others waiting has to go.

Who connects and says nothing must not keep scrapers out. So the newest is always let in, and in its place goes
a connection on which nothing is asked: first those that never asked for anything, of these the address that
holds most, of these the one that waits longest. A connection that is being answered is never cut.
"""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, eq=False)
class Guest:
    """A connection that was let in. `idle` says whether nothing is asked on it now; until somebody knows, in a
    TLS handshake for example, nothing is."""

    socket: socket.socket
    peer: str
    since: float  # monotonic: when it began to be idle
    served: bool = False
    idle: Callable[[], bool] = field(default=lambda: True)

    def answered(self) -> None:
        self.served, self.since = True, time.monotonic()


class Doorway(socket.socket):
    """Takes over a listening socket. Before and during TLS: what counts are sockets."""

    def __init__(self, listening: socket.socket, room: int) -> None:
        super().__init__(listening.family, listening.type, listening.proto, listening.detach())
        self._room = room
        self._guests: dict[int, Guest] = {}

    def accept(self) -> tuple[socket.socket, Any]:
        found, address = super().accept()
        if self._make_room():
            peer = str(address[0])
            self._guests[found.fileno()] = Guest(found, peer, time.monotonic())
        else:
            _hang_up(found)
        return found, address

    def guest(self, number: int) -> Guest | None:
        """By the number of its socket."""
        return self._guests.get(number)

    def _make_room(self) -> bool:
        """Whether there is room for one more; False while everybody is being answered."""
        if len(self._guests) < self._room:
            return True
        self._guests = {number: one for number, one in self._guests.items() if one.socket.fileno() >= 0}
        if len(self._guests) < self._room:
            return True
        idle = {number: one for number, one in self._guests.items() if one.idle()}
        if not idle:
            return False
        crowd = Counter(one.peer for one in idle.values() if not one.served)
        number = min(idle, key=lambda number: _order(idle[number], crowd))
        _hang_up(self._guests.pop(number).socket)
        return True


def _order(guest: Guest, crowd: Counter[str]) -> tuple[bool, int, float]:
    return guest.served, -crowd[guest.peer], guest.since


def _hang_up(found: socket.socket) -> None:
    """Whoever reads from it learns that it has ended, and closes it."""
    try:
        found.shutdown(socket.SHUT_RDWR)
    except OSError:  # it has ended already
        pass
