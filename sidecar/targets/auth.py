"""Credentials towards a target, read from files and read again when a file changes.

Kubernetes swaps a mounted secret by turning a symlink, so a change is told by inode, size and time of the
file behind it. The values here hold paths only: nothing secret can be printed with them.
"""

from __future__ import annotations

import base64
import os
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path

from sidecar.targets.failure import FetchError, one_line

_SECRET_LIMIT = 64 * 1024

Stamp = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Auth:
    """A bearer token, or a user name with a password; empty means none."""

    bearer_token_file: Path | None = None
    username: str = ""
    username_file: Path | None = None
    password_file: Path | None = None

    def __post_init__(self) -> None:
        basic = self.username or self.username_file or self.password_file
        if self.bearer_token_file and basic:
            raise ValueError("a bearer token and basic auth exclude each other")
        if self.username and self.username_file:
            raise ValueError("username and username_file exclude each other")
        if self.password_file and not (self.username or self.username_file):
            raise ValueError("password_file needs username or username_file")


@dataclass(frozen=True, slots=True)
class Tls:
    """How a target's certificate is verified, and the client's own certificate."""

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    server_name: str = ""
    insecure_skip_verify: bool = False

    def __post_init__(self) -> None:
        if self.key_file and not self.cert_file:
            raise ValueError("key_file needs cert_file")


def _shown(path: Path | None) -> str:
    """The end of a long path tells more than its beginning."""
    text = str(path)
    return one_line(text if len(text) <= 80 else f"~{text[-78:]}")


def _stamp(path: Path, result: str) -> Stamp:
    try:
        seen = path.stat()
    except OSError as exc:
        raise _unreadable(path, result, exc) from None
    if not stat.S_ISREG(seen.st_mode):
        raise FetchError(result, f"{_shown(path)}: not a regular file")
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns


def _unreadable(path: Path, result: str, exc: OSError) -> FetchError:
    return FetchError(result, f"{_shown(path)}: {one_line(exc.strerror or 'cannot be read')}")


def _secret(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_SECRET_LIMIT).strip(b" \t\r\n")
    except OSError as exc:
        raise _unreadable(path, "unauthorized", exc) from None


class Credentials:
    """The `Authorization` header of a target."""

    __slots__ = ("_auth", "_files", "_header", "_stamps")

    def __init__(self, auth: Auth) -> None:
        self._auth = auth
        named = (auth.bearer_token_file, auth.username_file, auth.password_file)
        self._files = tuple(path for path in named if path)
        self._stamps: tuple[Stamp, ...] | None = None
        self._header: str | None = None

    def header(self) -> str | None:
        """The header's value, None without credentials. Raises FetchError `unauthorized` naming the file."""
        stamps = tuple(_stamp(path, "unauthorized") for path in self._files)
        if stamps != self._stamps:
            self._header = self._read()
            self._stamps = stamps
        return self._header

    def _read(self) -> str | None:
        auth = self._auth
        if auth.bearer_token_file:
            token = _secret(auth.bearer_token_file)
            # A line break would let a file's text become a header of its own.
            if not token or not all(0x21 <= byte <= 0x7E for byte in token):
                path = _shown(auth.bearer_token_file)
                raise FetchError("unauthorized", f"{path}: not one token of printable characters")
            return f"Bearer {token.decode('ascii')}"
        user = _secret(auth.username_file) if auth.username_file else auth.username.encode()
        if not user:
            return None
        password = _secret(auth.password_file) if auth.password_file else b""
        return f"Basic {base64.b64encode(user + b':' + password).decode('ascii')}"


class TlsContext:
    """The TLS settings of a target as Python's `ssl` wants them, built anew when a file changes."""

    __slots__ = ("_context", "_files", "_stamps", "_tls")

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._files = tuple(path for path in (tls.ca_file, tls.cert_file, tls.key_file) if path)
        self._stamps: tuple[Stamp, ...] = ()
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext | bool:
        """A context, or True for the system's authorities. Raises FetchError `tls` naming the file."""
        if not self._files and not self._tls.insecure_skip_verify:
            return True
        stamps = tuple(_stamp(path, "tls") for path in self._files)
        if self._context is None or stamps != self._stamps:
            self._context = self._build()
            self._stamps = stamps
        return self._context

    def _build(self) -> ssl.SSLContext:
        tls = self._tls
        try:
            context = ssl.create_default_context(cafile=os.fspath(tls.ca_file) if tls.ca_file else None)
        except OSError:
            raise FetchError("tls", f"{_shown(tls.ca_file)}: no PEM certificates in it") from None
        if tls.insecure_skip_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if tls.cert_file:
            try:
                # Without a password OpenSSL would ask for an encrypted key's on the terminal.
                context.load_cert_chain(tls.cert_file, tls.key_file, password=lambda: b"")
            except OSError:
                path = _shown(tls.key_file or tls.cert_file)
                raise FetchError("tls", f"{path}: not the unencrypted key of tls.cert_file") from None
        return context
