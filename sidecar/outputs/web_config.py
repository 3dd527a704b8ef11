"""web.yml, the form that Prometheus' exporters share: TLS, users, headers and limits of the own pages.

Beside the exporter-toolkit's keys there is `bearer_token_files`. What Python's TLS can't do as asked is an
error, never ignored: nobody should believe in a lock that isn't there.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sidecar.config import ConfigError, KeyPath, Problem, SecretFile
from sidecar.config.document import MAX_BYTES, Document, read_document
from sidecar.config.forms import file_name, nearest
from sidecar.config.problem import Mistake, kind_of
from sidecar.config.quantities import parse_duration

_HASH = re.compile(r"\$2[aby]\$(0[4-9]|1[0-8])\$[./A-Za-z0-9]{53}")
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CLIENTS = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_HEADERS = (
    "Content-Security-Policy",
    "X-Frame-Options",
    "X-Content-Type-Options",
    "X-XSS-Protection",
    "Strict-Transport-Security",
)
_TOP = (
    "tls_server_config",
    "http_server_config",
    "basic_auth_users",
    "bearer_token_files",
    "auth_excluded_paths",
    "rate_limit",
)
_TLS = (
    "cert_file",
    "key_file",
    "client_ca_file",
    "client_auth_type",
    "client_allowed_sans",
    "min_version",
    "max_version",
)
_INLINE = {"cert": "cert_file", "key": "key_file", "client_ca": "client_ca_file"}
_OPENSSLS = ("cipher_suites", "prefer_server_cipher_suites", "curve_preferences")


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The listener's certificate, and whose client certificates it asks for."""

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    client: ssl.VerifyMode = ssl.CERT_NONE
    client_allowed_sans: tuple[str, ...] = ()
    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    max_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3


@dataclass(frozen=True, slots=True)
class WebConfig:
    """`users` maps names to bcrypt hashes. `rate` is seconds a request and the burst, None without a limit."""

    tls: ServerTls | None = None
    users: dict[str, bytes] = field(default_factory=dict, repr=False)
    token_files: tuple[SecretFile, ...] = ()
    excluded_paths: frozenset[str] = frozenset()
    headers: tuple[tuple[str, str], ...] = ()
    rate: tuple[float, int] | None = None


def read_web_config(path: Path) -> WebConfig:
    """Raises ConfigError with everything that is wrong; no message repeats a hash or what a file holds."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        says = f"it can't be read: {error.strerror}"
        raise ConfigError([Problem(str(path), 0, 0, "", says, "check web_config_file")]) from None
    document = read_document(raw, str(path))
    reader = _Reader(document, path.absolute().parent)
    config = WebConfig()
    if document.data is None and not document.problems:
        # A file that is just being written looks so, too: that must not open the door.
        reader.wrong((), "the file is empty", "write {} for neither TLS nor users")
    elif not document.problems:
        config = reader.config()
    if document.problems:
        raise ConfigError(document.problems)
    return config


class _Reader:
    def __init__(self, document: Document, folder: Path) -> None:
        self._document = document
        self._folder = folder

    def wrong(self, path: KeyPath, says: str, mend: str = "") -> None:
        self._document.problems.append(self._document.origins.problem(path, says, mend))

    def config(self) -> WebConfig:
        data = self._mapping((), self._document.data, _TOP)
        users = self._users(self._mapping(("basic_auth_users",), data.get("basic_auth_users")))
        tokens = self._list(("bearer_token_files",), data.get("bearer_token_files"))
        excluded = self._list(("auth_excluded_paths",), data.get("auth_excluded_paths"))
        for place, one in enumerate(excluded):
            if not one.startswith("/"):
                self.wrong(("auth_excluded_paths", place), "isn't a path", "write it like /healthz")
        return WebConfig(
            self._tls(data),
            users,
            tuple(
                SecretFile(file)
                for place, one in enumerate(tokens)
                if (file := self._file(("bearer_token_files", place), one))
            ),
            frozenset(excluded),
            self._headers(data),
            self._rate(data),
        )

    def _tls(self, data: dict[str, Any]) -> ServerTls | None:
        top = "tls_server_config"
        if data.get(top) is None:
            return None
        tls = self._mapping((top,), data[top], _TLS)
        files = {key: self._file((top, key), tls.get(key)) for key in _TLS[:3]}
        for key in ("cert_file", "key_file"):
            if tls.get(key) is None:
                self.wrong((top, key), "required", "TLS needs a certificate and its key, PEM files")
        kind = str(tls.get("client_auth_type") or "NoClientCert")
        if kind not in _CLIENTS:
            self.wrong(
                (top, "client_auth_type"),
                "isn't supported: a certificate that nobody verifies proves nothing",
                "write RequireAndVerifyClientCert",
            )
        client = _CLIENTS.get(kind, ssl.CERT_REQUIRED)
        if client is not ssl.CERT_NONE and files["client_ca_file"] is None:
            self.wrong((top, "client_ca_file"), "required", f"{kind} needs the authority of the clients")
        sans = self._list((top, "client_allowed_sans"), tls.get("client_allowed_sans"))
        if sans and client is not ssl.CERT_REQUIRED:
            self.wrong((top, "client_allowed_sans"), "needs client_auth_type: RequireAndVerifyClientCert")
        lowest, highest = (
            self._version((top, key), tls.get(key) or usual)
            for key, usual in (("min_version", "TLS12"), ("max_version", "TLS13"))
        )
        if lowest > highest:
            self.wrong((top, "max_version"), "below min_version")
        cert, key_file = files["cert_file"], files["key_file"]
        if cert is None or key_file is None:
            return None
        return ServerTls(cert, key_file, files["client_ca_file"], client, tuple(sans), lowest, highest)

    def _version(self, path: KeyPath, value: object) -> ssl.TLSVersion:
        if value not in _VERSIONS:
            self.wrong(path, "isn't a version that is served", f"write {' or '.join(_VERSIONS)}")
        return _VERSIONS.get(str(value), ssl.TLSVersion.TLSv1_3)

    def _users(self, users: dict[str, Any]) -> dict[str, bytes]:
        if users and find_spec("bcrypt") is None:
            self.wrong(("basic_auth_users",), "needs bcrypt", "pip install 'inference-sidecar[web]'")
        for name, value in users.items():
            if not isinstance(value, str) or not _HASH.fullmatch(value):
                mend = "a password's hash is written by: htpasswd -nBC 10 NAME; its cost is 18 at most"
                self.wrong(("basic_auth_users", name), "isn't a bcrypt hash", mend)
            if not name or ":" in name:
                self.wrong(("basic_auth_users",), "a user's name is empty or holds a colon")
        return {name: str(value).encode() for name, value in users.items()}

    def _headers(self, data: dict[str, Any]) -> tuple[tuple[str, str], ...]:
        top = "http_server_config"
        server = self._mapping((top,), data.get(top), ("http2", "headers"))
        if not isinstance(server.get("http2", False), bool):
            self.wrong((top, "http2"), "isn't true or false", "only HTTP/1.1 is served, whatever it says")
        headers = self._mapping((top, "headers"), server.get("headers"), _HEADERS)
        for name, value in headers.items():
            if not isinstance(value, str) or not value.isprintable():
                self.wrong((top, "headers", name), "isn't one line of text")
        return tuple((name, str(value)) for name, value in headers.items() if value)

    def _rate(self, data: dict[str, Any]) -> tuple[float, int] | None:
        limit = self._mapping(("rate_limit",), data.get("rate_limit"), ("interval", "burst"))
        if not limit:
            return None
        burst = limit.get("burst", 0)
        if not isinstance(burst, int) or isinstance(burst, bool) or burst < 1:
            self.wrong(("rate_limit", "burst"), "isn't a number of requests, 1 or more")
            burst = 1
        try:
            interval = parse_duration(str(limit.get("interval", 0)))
        except ValueError:
            self.wrong(("rate_limit", "interval"), "isn't a duration", "write it like 1s; 0 is no limit")
            interval = 0.0
        return (interval, burst) if interval > 0 else None

    def _mapping(self, path: KeyPath, value: Any, known: Iterable[str] = ()) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.wrong(path, f"expected a mapping, found {kind_of(value)}")
            return {}
        for key in value:
            if known and key not in known:
                self._unknown((*path, key), key, list(known))
        return value

    def _unknown(self, path: KeyPath, key: str, known: list[str]) -> None:
        if _INLINE.get(key) in known:
            self.wrong(path, "isn't accepted: keys are read from files", f"write {_INLINE[key]}")
        elif key in _OPENSSLS and "cert_file" in known:
            self.wrong(path, "can't be chosen here: OpenSSL's own order is used", "leave the key out")
        else:
            self.wrong(path, "unknown key", nearest(key, known) or f"known keys are {', '.join(known)}")

    def _list(self, path: KeyPath, value: Any) -> list[str]:
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self.wrong(path, "isn't a list of texts", "start each entry with `- `")
            return []
        return value

    def _file(self, path: KeyPath, value: Any) -> Path | None:
        if value is None:
            return None
        try:
            return Path(self._folder, file_name(value))
        except Mistake as mistake:
            self.wrong(path, mistake.says, mistake.mend)
            return None
