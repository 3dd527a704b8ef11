"""The edge of one target: asks its endpoints and turns replies and failures into answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from yarl import URL

from sidecar.runtimes.adapter import Answer, Endpoint
from sidecar.targets.failure import FetchError
from sidecar.targets.fetch import ACCEPT_ANY, ACCEPT_METRICS, PAGE_LIMIT, Fetcher

METRICS, HEALTH, READY = "metrics", "health", "ready"

#: A cheap endpoint's answer is small; more than this isn't one.
FACT_LIMIT = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Address:
    """Where a target's endpoints are. `paths` replaces an endpoint's own path by name."""

    url: str
    api_url: str | None = None
    paths: tuple[tuple[str, str], ...] = ()

    def at(self, api_url: str) -> Address:
        """The same target with its API elsewhere."""
        return Address(self.url, api_url, self.paths)

    def of(self, endpoint: Endpoint, api_ports: dict[int, int]) -> URL:
        """The URL of an endpoint. `api_ports` tells the API's port by the metrics' where they differ."""
        base = URL(self.url)
        if endpoint.api and self.api_url is not None:
            base = URL(self.api_url)
        elif endpoint.api and base.port in api_ports:
            base = base.with_port(api_ports[base.port])
        if endpoint.port is not None:
            base = base.with_port(endpoint.port)
        path = dict(self.paths).get(endpoint.name, endpoint.path)
        return URL(str(base).rstrip("/") + path, encoded=True)


class Target:
    """Asks pages on every tick, and the cheap endpoints beside them, each on its own schedule."""

    def __init__(self, address: Address, fetcher: Fetcher, *, limit: int = PAGE_LIMIT) -> None:
        self.address = address
        self._fetcher = fetcher
        self._limit = limit
        self._due: dict[Endpoint, float] = {}
        self._urls: dict[Endpoint, URL] = {}

    def forget(self) -> None:
        """Ask every cheap endpoint again: another process may answer now."""
        self._due.clear()
        self._urls.clear()

    def is_due(self, endpoints: Sequence[Endpoint], now: float) -> bool:
        """Whether a cheap endpoint is to be asked at `now`, a moment of the loop's clock."""
        return any(not one.page and self._due.get(one, now) <= now for one in endpoints)

    async def pages(
        self, endpoints: Sequence[Endpoint], api_ports: dict[int, int], deadline: float
    ) -> dict[str, Answer]:
        """The answers of the page endpoints, by name."""
        pages = [endpoint for endpoint in endpoints if endpoint.page]
        if len(pages) == 1:
            return {pages[0].name: await self._ask(pages[0], api_ports, deadline)}
        answers = await asyncio.gather(*(self._ask(one, api_ports, deadline) for one in pages))
        return {endpoint.name: answer for endpoint, answer in zip(pages, answers, strict=True)}

    async def facts(
        self, endpoints: Sequence[Endpoint], api_ports: dict[int, int], now: float, deadline: float
    ) -> dict[str, Answer]:
        """The answers of the cheap endpoints that are due at `now`, a moment of the loop's clock."""
        due = [one for one in endpoints if not one.page and self._due.get(one, now) <= now]
        for endpoint in due:
            self._due[endpoint] = now + endpoint.every
        answers = await asyncio.gather(*(self._ask(one, api_ports, deadline) for one in due))
        return {endpoint.name: answer for endpoint, answer in zip(due, answers, strict=True)}

    async def _ask(self, endpoint: Endpoint, api_ports: dict[int, int], deadline: float) -> Answer:
        url = self._urls.get(endpoint)
        if url is None:
            url = self._urls[endpoint] = self.address.of(endpoint, api_ports)
        try:
            page = await self._fetcher.get(
                url,
                deadline=deadline,
                accept=ACCEPT_METRICS if endpoint.page else ACCEPT_ANY,
                limit=self._limit if endpoint.page else FACT_LIMIT,
                any_status=not endpoint.page,
                method=endpoint.method,
            )
        except FetchError as error:
            return Answer(error=error.result, detail=error.detail)
        return Answer(page.status, page.body, page.whole, server=page.server)
