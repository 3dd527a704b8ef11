"""Who may read the sidecar's own pages: TLS, users, bearer tokens and limits of web.yml, in front of every path.

The file is looked at with each request and read again when it changed: users, tokens, headers and limits, all
or nothing. A certificate, its key and the clients' authority are looked at with each handshake. Whether TLS is
spoken at all, and how, is settled at the start.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
import secrets
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from sidecar.config import ConfigError, Problem, SecretFile, SecretUnreadable
from sidecar.outputs.web_config import ServerTls, WebConfig, read_web_config

log = logging.getLogger(__name__)

_SETTLED = 1.0  # a file younger than this may be half written
_MOST_REFUSED = 64  # remembered, so that a scraper with an old password costs no core
_MOST_HASHING = 8  # requests that wait for bcrypt; it takes tens of milliseconds each, on purpose
_BCRYPT_READS = 72  # bytes of a password; Go's cuts there, too

Stamp = tuple[int, int, int]


class Access:
    """The web.yml in force. Raises ConfigError when the file can't be used at first."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._seen = _stamp(path)
        self.config: WebConfig = read_web_config(path)
        self._gate = Gate(self.config.users, self.config.token_files)
        self._bucket = _Bucket(self.config.rate, time.monotonic)
        self._served: ServerTls | None = self.config.tls
        self._certificates: tuple[Stamp | None, ...] = ()
        self._renewed: ssl.SSLContext | None = None
        self.tls: ssl.SSLContext | None = self._first_context()

    def protect(self, app: web.Application) -> None:
        """Stand in front of every path of an application that has not started, unknown paths included."""
        app.middlewares.insert(0, self._middleware())
        app.on_response_prepare.append(self._add_headers)

    def _middleware(self) -> Middleware:
        @web.middleware
        async def access(request: web.Request, handler: Handler) -> web.StreamResponse:
            self._look()
            if not self._bucket.take():
                raise web.HTTPTooManyRequests(text="too many requests\n", headers={hdrs.RETRY_AFTER: "1"})
            if self._served and not _names_match(self._served.client_allowed_sans, request):
                raise web.HTTPForbidden(text="this client certificate's names aren't allowed\n")
            if request.path in self.config.excluded_paths:
                return await handler(request)
            if not await self._gate.opens(request.headers.get(hdrs.AUTHORIZATION)):
                headers = [(hdrs.WWW_AUTHENTICATE, one) for one in self._gate.asks]
                raise web.HTTPUnauthorized(text="credentials are needed\n", headers=headers)
            return await handler(request)

        return access

    async def _add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        for name, value in self.config.headers:
            response.headers[name] = value

    def _look(self) -> None:
        stamp = _stamp(self._path)
        if stamp == self._seen or stamp is None or self._clock() - stamp[2] / 1e9 < _SETTLED:
            return
        self._seen = stamp
        try:
            config = read_web_config(self._path)
        except ConfigError as error:
            log.error("the new web config is refused, the old one stays in force:\n%s", error)
            return
        if config.tls != self._served:
            log.warning("%s: a change of tls_server_config takes effect with the next start", self._path)
        if config.rate != self.config.rate:
            self._bucket = _Bucket(config.rate, time.monotonic)
        self.config, self._gate = config, Gate(config.users, config.token_files)
        log.info("web config reloaded")

    def _first_context(self) -> ssl.SSLContext | None:
        if self._served is None:
            return None
        try:
            context = self._context(self._served)
        except OSError as error:
            cause = error.strerror or "not an unencrypted key and its certificate"
            says = f"the listener's certificate can't be used: {cause}"
            raise ConfigError([Problem(str(self._path), 0, 0, "tls_server_config", says)]) from None
        context.sni_callback = self._renew
        return context

    def _context(self, tls: ServerTls) -> ssl.SSLContext:
        """Raises OSError, of which ssl.SSLError is one."""
        self._certificates = self._stamps(tls)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version, context.maximum_version = tls.min_version, tls.max_version
        # Without a password OpenSSL would ask for an encrypted key's on the terminal.
        context.load_cert_chain(tls.cert_file, tls.key_file, password=lambda: b"")
        context.verify_mode = tls.client
        if tls.client_ca_file is not None:
            context.load_verify_locations(tls.client_ca_file)
        context.set_alpn_protocols(["http/1.1"])
        return context

    @staticmethod
    def _stamps(tls: ServerTls) -> tuple[Stamp | None, ...]:
        return tuple(_stamp(one) for one in (tls.cert_file, tls.key_file, tls.client_ca_file) if one)

    def _renew(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """Called in each handshake, with or without SNI: a renewed certificate is served at once."""
        assert self._served is not None
        if self._stamps(self._served) != self._certificates:
            try:
                self._renewed = self._context(self._served)
            except OSError:
                log.error("the new certificate or key can't be used; the old one is served on")
        if self._renewed is not None:
            connection.context = self._renewed


class Gate:
    """Checks `Authorization` against users and tokens; open when there are neither."""

    def __init__(self, users: dict[str, bytes], token_files: Iterable[SecretFile]) -> None:
        self._users = users
        self._tokens = tuple(_Token(file) for file in token_files)
        self._key = secrets.token_bytes(32)
        self._let_in: dict[str, bytes] = {}  # user → digest of what was right: one each
        self._refused: OrderedDict[bytes, None] = OrderedDict()
        self._hashing = asyncio.Semaphore(1)
        self._waiting = 0

    @property
    def asks(self) -> list[str]:
        """Values of WWW-Authenticate."""
        basic = ['Basic realm="inference-sidecar", charset="UTF-8"'] if self._users else []
        return basic + (['Bearer realm="inference-sidecar"'] if self._tokens else [])

    async def opens(self, authorization: str | None) -> bool:
        """Whether this header's value lets in. Raises HTTPServiceUnavailable when too many ask at once."""
        if not self._users and not self._tokens:
            return True
        scheme, _, value = (authorization or "").partition(" ")
        if scheme.lower() == "bearer":
            given = value.strip().encode("utf-8", "surrogateescape")
            return any(one.is_(given) for one in self._tokens)
        if scheme.lower() != "basic" or not self._users:
            return False
        try:
            user, colon, password = base64.b64decode(value.strip(), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError, ValueError):
            return False
        return bool(colon) and await self._is_user(user, password)

    async def _is_user(self, user: str, password: str) -> bool:
        digest = hmac.digest(self._key, f"{user}\0{password}".encode(), "sha256")
        if hmac.compare_digest(self._let_in.get(user, b""), digest):
            return True
        if digest in self._refused:
            return False
        if self._waiting >= _MOST_HASHING:
            raise web.HTTPServiceUnavailable(
                text="too many logins at once\n", headers={hdrs.RETRY_AFTER: "1"}
            )
        self._waiting += 1
        try:
            async with self._hashing:
                # Of an unknown user another's hash is computed: the time tells nobody who exists.
                known = self._users.get(user) or next(iter(self._users.values()))
                matches = await asyncio.to_thread(_matches, password, known)
        finally:
            self._waiting -= 1
        if matches and user in self._users:
            self._let_in[user] = digest
            return True
        self._refused[digest] = None
        if len(self._refused) > _MOST_REFUSED:
            self._refused.popitem(last=False)
        return False


class _Token:
    """A bearer token, read again when its file changes; none while the file can't be used."""

    def __init__(self, file: SecretFile) -> None:
        self._file = file
        self._seen: Stamp | None = None
        self._value = b""

    def is_(self, given: bytes) -> bool:
        stamp = _stamp(self._file.path)
        if stamp != self._seen:
            self._seen = stamp
            try:
                self._value = self._file.read_line().encode()
            except SecretUnreadable as error:
                self._value = b""
                log.error("a bearer token can't be read, nobody gets in with it: %s", error)
        return hmac.compare_digest(self._value, given) and self._value != b""


class _Bucket:
    """A token bucket: one request each `interval`, `burst` at once."""

    def __init__(self, rate: tuple[float, int] | None, mono: Callable[[], float]) -> None:
        self._rate = rate
        self._mono = mono
        self._filled = float(rate[1]) if rate else 0.0
        self._at = mono()

    def take(self) -> bool:
        if self._rate is None:
            return True
        interval, burst = self._rate
        now = self._mono()
        self._filled = min(burst, self._filled + (now - self._at) / interval)
        self._at = now
        if self._filled < 1:
            return False
        self._filled -= 1
        return True


def _matches(password: str, hashed: bytes) -> bool:
    import bcrypt  # an extra, and only needed where there are users

    try:
        return bcrypt.checkpw(password.encode()[:_BCRYPT_READS], hashed)
    except ValueError:  # a NUL in the password
        return False


def _names_match(allowed: tuple[str, ...], request: web.Request) -> bool:
    if not allowed:
        return True
    certificate = request.transport.get_extra_info("peercert") if request.transport else None
    names = {value for _, value in (certificate or {}).get("subjectAltName", ())}
    return not names.isdisjoint(allowed)


def _stamp(path: Path) -> Stamp | None:
    """Inode, size and time of the file behind the name: a mounted secret changes by turning a symlink."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
