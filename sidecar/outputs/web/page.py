"""The status page's routes: the page itself, its files, and its events."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

from aiohttp import hdrs, web

from sidecar.outputs.prometheus.negotiation import wants_gzip
from sidecar.outputs.web.feed import MOST_VIEWERS, Feed
from sidecar.snapshot import Publication

#: Everything comes from the sidecar itself; no inline script or style, no frame, no form.
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_FOLDER = Path(__file__).parent / "static"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class StatusPage:
    """`add_to` an application before it starts; `page` answers a browser that asks for `/`."""

    def __init__(
        self, publication: Callable[[], Publication], clock: Callable[[], float] = time.time
    ) -> None:
        self.feed = Feed(publication, clock)

    def add_to(self, app: web.Application) -> None:
        """Add the routes, and follow the publications while the application runs."""
        app[STATUS_PAGE] = self
        app.router.add_get("/events", self._events, allow_head=False)
        app.router.add_get("/static/{name}", self._static)
        app.cleanup_ctx.append(self._follow)
        app.on_shutdown.append(self._close)

    def page(self, request: web.Request) -> web.Response:
        """The page; its numbers come with the events."""
        response = _file(request, "index.html")
        response.headers["Content-Security-Policy"] = CSP
        return response

    async def _static(self, request: web.Request) -> web.Response:
        """files of the status page"""
        return _file(request, request.match_info["name"])

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """what the status page shows, as server-sent events"""
        if self.feed.viewers >= MOST_VIEWERS:
            raise web.HTTPServiceUnavailable(text=f"{MOST_VIEWERS} viewers are being served; try later\n")
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "text/event-stream"})
        response.headers["X-Accel-Buffering"] = "no"
        await response.prepare(request)
        async with aclosing(self.feed.messages()) as messages:
            with suppress(ConnectionError):  # the viewer has gone
                async for message in messages:
                    await response.write(message)
        return response

    async def _follow(self, app: web.Application) -> AsyncIterator[None]:
        following = asyncio.create_task(self.feed.run())
        yield
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    async def _close(self, app: web.Application) -> None:
        self.feed.close()


def wants_html(accept: str) -> bool:
    """Whether an Accept header is a browser's."""
    return "text/html" in accept.lower()


@cache
def _files() -> dict[str, tuple[bytes, bytes, str, str]]:
    """Name → body, the same gzipped, content type, entity tag; nothing else can be asked for."""
    found = {}
    for path in _FOLDER.iterdir():
        if path.suffix in _TYPES:
            body = path.read_bytes()
            tag = f'"{sha256(body).hexdigest()[:16]}"'
            found[path.name] = (body, gzip.compress(body, mtime=0), _TYPES[path.suffix], tag)
    return found


def _file(request: web.Request, name: str) -> web.Response:
    if name not in _files():
        raise web.HTTPNotFound(text="there is no such file\n")
    body, packed, kind, tag = _files()[name]
    headers = {hdrs.CACHE_CONTROL: "no-cache", hdrs.ETAG: tag, hdrs.VARY: "Accept, Accept-Encoding"}
    if tag in request.headers.get(hdrs.IF_NONE_MATCH, ""):
        return web.Response(status=304, headers=headers)
    headers[hdrs.CONTENT_TYPE] = kind
    if wants_gzip(",".join(request.headers.getall(hdrs.ACCEPT_ENCODING, ()))):
        return web.Response(body=packed, headers={**headers, hdrs.CONTENT_ENCODING: "gzip"})
    return web.Response(body=body, headers=headers)


STATUS_PAGE: web.AppKey[StatusPage] = web.AppKey("status_page", StatusPage)
