"""`/metrics` of a publication: rendered when somebody asks, once for each format and encoding."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from typing import Protocol

from sidecar.outputs.prometheus.page import Page, Refused
from sidecar.snapshot import Block, Publication

_GZIP = 31  # zlib's window bits for a gzip frame: no time of day in it, so equal pages are equal bytes
_KEPT = 10.0


class Tail(Protocol):
    """Families that join the page at its end."""

    def render(self, *, openmetrics: bool) -> bytes: ...


class Scrape:
    """Bytes of the page, kept until the next publication: ten scrapers cost what one does.

    They are kept for ten seconds at most, so that the tail goes on moving when nothing is published.
    """

    def __init__(
        self,
        publication: Callable[[], Publication],
        tail: Tail,
        refused: Refused,
        mono: Callable[[], float] = time.monotonic,
    ) -> None:
        self._publication = publication
        self._tail = tail
        self._page = Page(refused)
        self._mono = mono
        self._of: Publication | None = None
        self._until = 0.0
        self._bodies: dict[tuple[bool, bool], bytes] = {}

    def body(self, *, openmetrics: bool, gzip: bool) -> bytes:
        publication = self._publication()
        if publication is not self._of or self._mono() >= self._until:
            self._of = publication
            self._until = self._mono() + _KEPT
            self._bodies.clear()
        return self._body(publication, openmetrics, gzip)

    def _body(self, publication: Publication, openmetrics: bool, gzip: bool) -> bytes:
        body = self._bodies.get((openmetrics, gzip))
        if body is None:
            if gzip:
                # level 1: a page of repeated names is a tenth of its size already
                body = zlib.compress(self._body(publication, openmetrics, False), 1, _GZIP)
            else:
                tail = self._tail.render(openmetrics=openmetrics)
                body = self._page.render(blocks_of(publication), openmetrics=openmetrics, tail=tail)
            self._bodies[openmetrics, gzip] = body
        return body


def blocks_of(publication: Publication) -> list[Block]:
    """All blocks of a publication in page order: each target's, then those of no target."""
    blocks = [block for snapshot in publication.snapshots for block in snapshot.blocks]
    return [*blocks, *publication.shared]
