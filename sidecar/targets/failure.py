"""How a fetch that went wrong is classed and put into one short line.

A detail is built from fixed phrases, the host and port, and the system's own error text. It never quotes a
URL, a header or a page: those may hold secrets, or whatever a server likes to inject.
"""

from __future__ import annotations

import errno
import os
import ssl

import aiohttp
from yarl import URL

from sidecar.schema import SCRAPE_RESULTS

#: What OpenSSL calls a reply that is no TLS record; the name depends on its version.
_NOT_TLS = frozenset(
    {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"}
)

#: The start of a TLS alert, as aiohttp's complaint about a bad status line quotes it.
_TLS_ALERT = r"\x15\x03"

USE_HTTPS = "if the port speaks TLS, use https:// in the URL"
USE_HTTP = "if the port speaks no TLS, use http:// in the URL"
GIVE_CERT = "if it wants a client certificate, set tls.cert_file"


class FetchError(Exception):
    """A fetch without a usable page: `result` is one of `SCRAPE_RESULTS`, `detail` one short, safe line."""

    def __init__(self, result: str, detail: str) -> None:
        if result not in SCRAPE_RESULTS:
            raise ValueError(f"{result!r} is no scrape result")
        super().__init__(detail)
        self.result = result
        self.detail = detail


def one_line(text: str, most: int = 80) -> str:
    """`text` with everything unprintable or beyond ASCII escaped, at most `most` characters long."""
    safe = text[: most + 1].encode("unicode_escape").decode("ascii")
    return safe if len(safe) <= most else safe[: most - 1] + "~"


def where(url: URL) -> str:
    """Host and port, without user, password, path or query."""
    host = one_line(url.host or "?", 60)
    return f"[{host}]:{url.port}" if ":" in host else f"{host}:{url.port}"


def _tls_error(exc: BaseException | None) -> ssl.SSLError | None:
    """The TLS error behind `exc`; TLS 1.3 refuses a client after the handshake, so it may be a cause."""
    while exc is not None:
        if isinstance(exc, ssl.SSLError) and not isinstance(exc, aiohttp.ClientConnectorError):
            return exc
        inner = exc.os_error if isinstance(exc, aiohttp.ClientConnectorError) else None
        exc = inner or exc.__cause__
    return None


def _tls_failure(exc: ssl.SSLError, url: URL) -> FetchError:
    if isinstance(exc, ssl.SSLCertVerificationError):
        reason = one_line(exc.verify_message or "not verified", 120)
        mend = "set tls.server_name" if "mismatch" in reason else "set tls.ca_file"
        return FetchError("tls", f"certificate of {where(url)}: {reason}; {mend}")
    reason = exc.reason or ""
    if reason in _NOT_TLS:
        return FetchError("tls", f"{where(url)} does not speak TLS: use http:// in the URL")
    mend = "; set tls.cert_file and tls.key_file" if "CERTIFICATE_REQUIRED" in reason else ""
    return FetchError("tls", f"TLS with {where(url)}: {one_line(reason.lower().replace('_', ' '))}{mend}")


def _connect_failure(exc: aiohttp.ClientConnectorError, url: URL) -> FetchError:
    if isinstance(exc, aiohttp.ClientConnectorDNSError):
        return FetchError("dns", f"{where(url)} does not resolve: {one_line(exc.os_error.strerror or '')}")
    if exc.os_error.errno == errno.ETIMEDOUT:
        return FetchError("timeout", f"{where(url)}: no answer to the connection request")
    if url.scheme == "https" and isinstance(exc.os_error, ConnectionResetError | ConnectionAbortedError):
        return FetchError("tls", f"{where(url)} cut the TLS handshake; {USE_HTTP}")
    cause = os.strerror(exc.os_error.errno or 0) if exc.os_error.errno else str(exc.os_error)
    return FetchError("refused", f"{where(url)}: {one_line(cause.lower())}")


def failure_of(exc: Exception, url: URL) -> FetchError:
    """The class of an error that aiohttp raised for `url`."""
    if tls := _tls_error(exc):
        return _tls_failure(tls, url)
    if isinstance(exc, aiohttp.ClientConnectorError):
        return _connect_failure(exc, url)
    if isinstance(exc, TimeoutError):
        return FetchError("timeout", f"{where(url)}: no answer in time")
    mend = USE_HTTPS if url.scheme == "http" else GIVE_CERT
    if isinstance(exc, aiohttp.ServerDisconnectedError):
        return FetchError("http_error", f"{where(url)} closed the connection without a reply; {mend}")
    if isinstance(exc, aiohttp.ClientPayloadError):
        return FetchError("http_error", "the body was cut or badly framed")
    if isinstance(exc, aiohttp.ClientResponseError):
        if url.scheme == "http" and _TLS_ALERT in exc.message:
            return FetchError("http_error", f"{where(url)} speaks TLS: use https:// in the URL")
        return FetchError("http_error", f"{where(url)} sent no valid HTTP reply")
    if isinstance(exc, OSError):
        return FetchError(
            "http_error", f"the connection broke: {one_line(exc.strerror or 'no reason given')}"
        )
    return FetchError("http_error", f"the URL cannot be used: {type(exc).__name__}")
