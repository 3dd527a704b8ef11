"""HTTP GET with bounds: on time, on size before and after decompression, on redirects.

Knows nothing of metrics. Every failure is a `FetchError` whose class the schema names.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from dataclasses import dataclass
from types import TracebackType

import aiohttp
from yarl import URL

from sidecar import __version__
from sidecar.targets.auth import Auth, Credentials, Tls, TlsContext
from sidecar.targets.failure import FetchError, failure_of, one_line, where
from sidecar.targets.resolve import Resolver

log = logging.getLogger(__name__)

ACCEPT_METRICS = "text/plain;version=0.0.4"
ACCEPT_ANY = "*/*"
PAGE_LIMIT = 32 * 1024 * 1024
MAX_REDIRECTS = 3

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_GZIP = frozenset({"gzip", "x-gzip"})
#: Output of one step of decompression: about a millisecond, after which other targets have their turn.
_STEP = 256 * 1024
#: One read of the socket holds most pages whole.
_READ_BUFFER = 1024 * 1024
#: Longer than the usual intervals; a server that hangs up earlier is noticed and connected to again.
_KEEP_ALIVE = 90.0


@dataclass(frozen=True, slots=True)
class Page:
    """A reply. `body` is decoded; `whole` says that Content-Length, chunked framing or a gzip trailer vouches
    for its end (a body that just ends when the server hangs up may have been cut anywhere). `elapsed` is in
    seconds, redirects included."""

    status: int
    body: bytes
    content_type: str = ""
    server: str = ""
    whole: bool = True
    elapsed: float = 0.0


class Fetcher:
    """The HTTP side of one target: its connections (kept alive), credentials and TLS settings.

    Proxies from the environment and cookies are ignored. `name` is for the log. To be closed, or used with
    `async with`.
    """

    def __init__(self, name: str = "", auth: Auth | None = None, tls: Tls | None = None) -> None:
        self._credentials = Credentials(auth or Auth())
        self._tls = tls or Tls()
        self._tls_context = TlsContext(self._tls)
        self._server_name = self._tls.server_name or None
        self._session: aiohttp.ClientSession | None = None
        if self._tls.insecure_skip_verify:
            log.warning(
                "target %s: its TLS certificate is not verified (insecure_skip_verify)", one_line(name)
            )

    async def __aenter__(self) -> Fetcher:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Drop the connections. The fetcher may be used again afterwards."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(
        self,
        url: str | URL,
        *,
        deadline: float,
        accept: str = ACCEPT_METRICS,
        limit: int = PAGE_LIMIT,
        any_status: bool = False,
        method: str = "GET",
    ) -> Page:
        """The page at `url`.

        `deadline` is a moment of the event loop's clock (`loop.time() + seconds`) and bounds everything, from
        name resolution to the last byte. `limit` bounds the body in bytes, as sent and as decoded. Without
        `any_status`, a status other than 200 is an error; with it (health, readiness) every status is an
        answer. `method` is for what asks without changing anything, whatever its verb (Triton's index wants a
        POST). Raises FetchError.
        """
        clock = asyncio.get_running_loop().time
        started = clock()
        parts: list[bytes] = []
        target = _parse(url)
        # `from None`: aiohttp's own texts quote URLs, and a log prints causes and contexts.
        try:
            async with asyncio.timeout_at(deadline):
                reply = await self._follow(target, accept, limit, any_status, parts, method)
                body, whole = await _decoded(reply, b"".join(parts), limit)
        except TimeoutError:
            received = sum(map(len, parts))
            stage = f"the body was not complete, {received} bytes came" if received else "no reply"
            waited = f"within {clock() - started:.1f} s"
            raise FetchError("timeout", f"{where(target)}: {stage} {waited}") from None
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            raise failure_of(exc, target) from None
        return Page(
            status=reply.status,
            body=body,
            content_type=reply.headers.get("Content-Type", ""),
            server=reply.headers.get("Server", ""),
            whole=whole,
            elapsed=clock() - started,
        )

    async def _follow(
        self, url: URL, accept: str, limit: int, any_status: bool, parts: list[bytes], method: str
    ) -> aiohttp.ClientResponse:
        session = self._session or self._open()
        headers = {"Accept": accept}
        if authorization := self._credentials.header():
            headers["Authorization"] = authorization
        secure = self._tls_context.context() if url.scheme == "https" else True
        for _ in range(MAX_REDIRECTS + 1):
            reply = await session.request(
                method,
                url,
                headers=headers,
                allow_redirects=False,
                ssl=secure,
                server_hostname=self._server_name,
            )
            try:
                if reply.status in _REDIRECTS:
                    url = _next_hop(reply, url)
                    continue
                if reply.status != 200 and not any_status:
                    raise await _refusal(reply, url, bool(authorization))
                await _read(reply, limit, parts)
                return reply
            finally:
                reply.release()  # closes the connection unless the body was read to its end
        raise FetchError("http_error", f"more than {MAX_REDIRECTS} redirects")

    def _open(self) -> aiohttp.ClientSession:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(keepalive_timeout=_KEEP_ALIVE, resolver=Resolver()),
            cookie_jar=aiohttp.DummyCookieJar(),
            # aiohttp's own timeouts are rounded up to a whole second from 5 s on: `get` has its own.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None, sock_read=None),
            # aiohttp takes the decoded half of a gzip body that was cut for a good body.
            auto_decompress=False,
            headers={"Accept-Encoding": "identity", "User-Agent": f"inference-sidecar/{__version__}"},
            read_bufsize=_READ_BUFFER,
        )
        return self._session


def _parse(url: str | URL) -> URL:
    try:
        parsed = URL(url)
    except ValueError:
        parsed = URL()
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise FetchError("http_error", "the URL cannot be used: it needs http:// or https:// and a host")
    if parsed.user is not None or parsed.password is not None:
        raise FetchError(
            "unauthorized", "credentials in the URL are refused: set auth.username and password_file"
        )
    return parsed


def _next_hop(reply: aiohttp.ClientResponse, url: URL) -> URL:
    """Where a redirect leads; only to the same scheme, host and port, so that nothing else is ever asked."""
    location = reply.headers.get("Location", "")
    try:
        hop = url.join(URL(location))
        same = hop.origin() == url.origin()
    except ValueError:
        location = ""
    if not location:
        raise FetchError("http_error", f"HTTP {reply.status} without a usable Location")
    if not same:
        raise FetchError("http_error", f"redirect to another origin refused: {hop.scheme}://{where(hop)}")
    return hop.with_user(None)


async def _refusal(reply: aiohttp.ClientResponse, url: URL, with_credentials: bool) -> FetchError:
    status = reply.status
    if status in (401, 403):
        mend = "the credentials were refused" if with_credentials else "set auth for this target"
        return FetchError("unauthorized", f"HTTP {status}: {mend}")
    if status == 404:
        return FetchError("not_found", f"HTTP 404 for {one_line(url.path)}")
    if status == 400 and url.scheme == "http" and b"https" in (await reply.content.readany()).lower():
        return FetchError("http_error", f"HTTP 400: {where(url)} speaks TLS: use https:// in the URL")
    return FetchError("http_error", f"HTTP {status}")


async def _read(reply: aiohttp.ClientResponse, limit: int, parts: list[bytes]) -> None:
    """Append the body to `parts`, a socket's read at a time: a flood leaves the loop its turns."""
    content = reply.content
    size = 0
    if (reply.content_length or 0) <= limit:
        while part := await content.readany():
            parts.append(part)
            size += len(part)
            if size > limit:
                break
        else:
            return
    raise FetchError("too_large", f"the body is larger than {limit} bytes")


async def _decoded(reply: aiohttp.ClientResponse, raw: bytes, limit: int) -> tuple[bytes, bool]:
    headers = reply.headers
    encoding = headers.get("Content-Encoding", "").strip().lower()
    if encoding in _GZIP and reply.status not in (204, 304):
        return await _gunzip(raw, limit), True
    if encoding not in ("", "identity"):
        raise FetchError("http_error", f"content encoding {one_line(encoding, 20)} was not asked for")
    chunked = "chunked" in headers.get("Transfer-Encoding", "").lower()
    return raw, chunked or "Content-Length" in headers or reply.status in (204, 304)


async def _gunzip(raw: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    parts: list[bytes] = []
    size = 0
    rest = raw
    while True:
        try:
            part = stream.decompress(rest, _STEP)
        except zlib.error:
            raise FetchError("parse_error", "the gzip body is broken") from None
        parts.append(part)
        size += len(part)
        if size > limit:
            raise FetchError("too_large", f"the body unpacks to more than {limit} bytes")
        if stream.eof:
            break
        rest = stream.unconsumed_tail
        if not part and not rest:
            raise FetchError("parse_error", "the gzip body is cut")
        await asyncio.sleep(0)
    if stream.unused_data:
        raise FetchError("parse_error", "the gzip body is followed by other bytes")
    return b"".join(parts)
