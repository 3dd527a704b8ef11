"""The sidecar's own listener: `/metrics`, health, `/v1/signals`. It answers at once, from the last
publication.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from sidecar.outputs.prometheus.negotiation import OPENMETRICS, TEXT, wants_gzip, wants_openmetrics
from sidecar.outputs.prometheus.scrape import Scrape
from sidecar.outputs.self_metrics import SelfMetrics
from sidecar.outputs.signal_value import signal_value
from sidecar.outputs.signals_json import Json, signals
from sidecar.outputs.web.page import StatusPage, wants_html
from sidecar.snapshot import Publication

_LOG = logging.getLogger(__name__)
_METHODS = (hdrs.METH_GET, hdrs.METH_HEAD)
_LARGEST_BODY = 16 * 1024  # no path reads one; what a later one may read is bounded

SERVER = "inference-sidecar"


def http_app(
    publication: Callable[[], Publication],
    itself: SelfMetrics,
    *,
    clock: Callable[[], float] = time.time,
    stale_after: float = 60.0,
) -> web.Application:
    """The application. Other rooms may add GET routes until it is started; `/` lists them with the first line
    of their docstrings.

    `stale_after` seconds after a target's last scrape `/v1/signals/{name}` refuses to answer for it: a last
    resort for scalers, longer than any target's own staleness.
    """
    app = web.Application(middlewares=[_guard(itself)], client_max_size=_LARGEST_BODY)
    app.on_response_prepare.append(_on_prepare)
    scrape = Scrape(publication, itself, itself.series_dropped)
    status = StatusPage(publication, clock)

    async def index(request: web.Request) -> web.Response:
        """the status page for a browser, this list for others"""
        if wants_html(",".join(request.headers.getall(hdrs.ACCEPT, ()))):
            return status.page(request)
        return web.Response(text=_listing(request.app), headers={hdrs.VARY: hdrs.ACCEPT})

    async def metrics(request: web.Request) -> web.Response:
        """Prometheus text format or OpenMetrics"""
        openmetrics = wants_openmetrics(",".join(request.headers.getall(hdrs.ACCEPT, ())))
        gzip = wants_gzip(",".join(request.headers.getall(hdrs.ACCEPT_ENCODING, ())))
        headers = {
            hdrs.CONTENT_TYPE: OPENMETRICS if openmetrics else TEXT,
            hdrs.VARY: "Accept, Accept-Encoding",
        }
        if gzip:
            headers[hdrs.CONTENT_ENCODING] = "gzip"
        return web.Response(body=scrape.body(openmetrics=openmetrics, gzip=gzip), headers=headers)

    async def healthz(request: web.Request) -> web.Response:
        """200 while the sidecar's process runs"""
        return web.Response(text="ok\n")

    async def readyz(request: web.Request) -> web.Response:
        """200 once something was published; says nothing of a runtime"""
        if publication().serial > 0:
            return web.Response(text="ready\n")
        return web.Response(status=503, text="nothing published yet\n")

    async def all_signals(request: web.Request) -> web.Response:
        """every signal of every target, present or absent, as JSON"""
        return _json(200, signals(publication(), clock()))

    async def one_signal(request: web.Request) -> web.Response:
        """one number: ?target=, ?model_name= …, ?aggregate=sum|max|…"""
        answer = signal_value(publication(), request.match_info["name"], request.query, clock(), stale_after)
        return _json(answer.status, answer.body)

    app.router.add_get("/", index)
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/v1/signals", all_signals)
    app.router.add_get("/v1/signals/{name}", one_signal)
    status.add_to(app)
    return app


def _guard(itself: SelfMetrics) -> Middleware:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method not in _METHODS:
            raise web.HTTPMethodNotAllowed(request.method, _METHODS)
        try:
            return await handler(request)
        except (web.HTTPException, ConnectionError):
            raise
        except Exception:
            itself.output_failed("http")
            _LOG.exception("%s can't be answered", request.path)
            return web.Response(status=500, text="this is a fault of the sidecar; its log has the cause\n")

    return guard


async def _on_prepare(request: web.Request, response: web.StreamResponse) -> None:
    secure(response)


def secure(response: web.StreamResponse) -> None:
    """Headers of every answer; an HTML page sets its own Content-Security-Policy first."""
    headers = response.headers
    headers[hdrs.SERVER] = SERVER
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Referrer-Policy"] = "no-referrer"
    headers.setdefault(hdrs.CACHE_CONTROL, "no-store")
    headers.setdefault("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")


def _json(status: int, body: Json) -> web.Response:
    text = json.dumps(body, allow_nan=False) + "\n"
    return web.Response(status=status, text=text, content_type="application/json")


def _listing(app: web.Application) -> str:
    paths = {
        route.resource.canonical: (route.handler.__doc__ or "").strip().partition("\n")[0]
        for route in app.router.routes()
        if route.method == hdrs.METH_GET and route.resource is not None
    }
    width = max(len(path) for path in paths)
    return "inference-sidecar\n\n" + "".join(
        f"{path:{width}}  {what}".rstrip() + "\n" for path, what in paths.items()
    )
