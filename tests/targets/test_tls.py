"""TLS towards a target, with real handshakes: who is refused, who is accepted, and what the user is told."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trustme

from sidecar.targets.auth import Tls
from sidecar.targets.failure import FetchError
from sidecar.targets.fetch import Fetcher

PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ng 7\n"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return path


def server_side(authority: trustme.CA, name: str = "127.0.0.1", client: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(context)
    if client:
        context.verify_mode = ssl.CERT_REQUIRED
        authority.configure_trust(context)
    return context


def client_files(authority: trustme.CA, folder: Path, name: str = "client") -> tuple[Path, Path]:
    issued = authority.issue_cert("sidecar.example")
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    issued.cert_chain_pems[0].write_to_path(cert)
    issued.private_key_pem.write_to_path(key)
    return cert, key


async def outcome(fetcher: Fetcher, url: str) -> bytes | FetchError:
    try:
        return (await fetcher.get(url, deadline=asyncio.get_running_loop().time() + 20)).body
    except FetchError as exc:
        return exc


def fetch(serve: Any, context: ssl.SSLContext | None, tls: Tls, scheme: str = "") -> bytes | FetchError:
    async def run() -> bytes | FetchError:
        async with serve(PAGE, tls=context) as server, Fetcher("t", tls=tls) as fetcher:
            return await outcome(fetcher, server.url.replace(server.scheme, scheme or server.scheme, 1))

    return asyncio.run(run())


def test_an_unknown_authority_is_refused(serve: Any, authority: trustme.CA) -> None:
    got = fetch(serve, server_side(authority), Tls())
    assert isinstance(got, FetchError) and got.result == "tls"
    assert "tls.ca_file" in got.detail


def test_another_authority_is_refused(serve: Any, ca_file: Path) -> None:
    got = fetch(serve, server_side(trustme.CA()), Tls(ca_file=ca_file))
    assert isinstance(got, FetchError) and got.result == "tls"


def test_the_named_authority_is_accepted(serve: Any, authority: trustme.CA, ca_file: Path) -> None:
    assert fetch(serve, server_side(authority), Tls(ca_file=ca_file)) == b"g 7\n"


def test_a_certificate_of_another_host_is_refused(serve: Any, authority: trustme.CA, ca_file: Path) -> None:
    got = fetch(serve, server_side(authority, "vllm.example"), Tls(ca_file=ca_file))
    assert isinstance(got, FetchError) and got.result == "tls"
    assert "tls.server_name" in got.detail


def test_server_name_says_whose_certificate_is_meant(
    serve: Any, authority: trustme.CA, ca_file: Path
) -> None:
    tls = Tls(ca_file=ca_file, server_name="vllm.example")
    assert fetch(serve, server_side(authority, "vllm.example"), tls) == b"g 7\n"


def test_skipping_verification_is_asked_for_and_logged(
    serve: Any, authority: trustme.CA, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert fetch(serve, server_side(authority), Tls(insecure_skip_verify=True)) == b"g 7\n"
    assert "not verified" in caplog.text


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_certificate_that_is_wanted(
    version: ssl.TLSVersion, serve: Any, authority: trustme.CA, ca_file: Path, tmp_path: Path
) -> None:
    context = server_side(authority, client=True)
    context.minimum_version = context.maximum_version = version
    without = fetch(serve, context, Tls(ca_file=ca_file))
    # asyncio's server hangs up without an alert, after TLS 1.3 has let the client in already.
    assert isinstance(without, FetchError) and without.result in ("tls", "http_error"), without
    assert version is ssl.TLSVersion.TLSv1_3 or without.result == "tls"
    assert "tls.cert_file" in without.detail or without.result == "tls"
    cert, key = client_files(authority, tmp_path)
    assert fetch(serve, context, Tls(ca_file=ca_file, cert_file=cert, key_file=key)) == b"g 7\n"


def test_a_server_that_says_that_it_wants_a_client_certificate(authority: trustme.CA, ca_file: Path) -> None:
    """A blocking server sends OpenSSL's alert, which TLS 1.3 delivers in the place of the reply."""
    context = server_side(authority, client=True)

    def refuse_all(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                secure = context.wrap_socket(client, server_side=True, do_handshake_on_connect=False)
                with secure, suppress(ssl.SSLError):
                    try:
                        secure.do_handshake()
                    finally:
                        while os.read(secure.fileno(), 4096):
                            """An unread request would turn the farewell into a reset."""

    async def run(port: int) -> bytes | FetchError:
        async with Fetcher(tls=Tls(ca_file=ca_file)) as fetcher:
            return await outcome(fetcher, f"https://127.0.0.1:{port}/metrics")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=refuse_all, args=(listener,), daemon=True)
        thread.start()
        got = asyncio.run(run(listener.getsockname()[1]))
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)
    assert isinstance(got, FetchError) and got.result == "tls"
    assert "tls.cert_file" in got.detail


@pytest.mark.parametrize("reply", [b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", b""])
def test_https_to_a_port_without_tls(reply: bytes) -> None:
    """A server that answers in clear what it does not understand, and one that hangs up on it."""

    async def run() -> bytes | FetchError:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(reply)
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server, Fetcher() as fetcher:
            port = server.sockets[0].getsockname()[1]
            return await outcome(fetcher, f"https://127.0.0.1:{port}/metrics")

    got = asyncio.run(run())
    assert isinstance(got, FetchError) and got.result == "tls"
    assert "use http://" in got.detail


def test_http_to_a_port_with_tls(serve: Any, authority: trustme.CA) -> None:
    got = fetch(serve, server_side(authority), Tls(), scheme="http")
    assert isinstance(got, FetchError) and got.result == "http_error"
    assert "https://" in got.detail


@pytest.mark.parametrize(
    "reply",
    [
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
    ],
)
def test_http_to_a_port_that_says_that_it_wants_tls(reply: bytes, serve: Any) -> None:
    async def run() -> bytes | FetchError:
        async with serve(reply) as server, Fetcher() as fetcher:
            return await outcome(fetcher, server.url)

    got = asyncio.run(run())
    assert isinstance(got, FetchError) and got.result == "http_error"
    assert "use https://" in got.detail


def test_a_new_authority_and_a_new_client_certificate_are_picked_up(
    serve: Any, authority: trustme.CA, ca_file: Path, tmp_path: Path
) -> None:
    async def run() -> list[bytes | str]:
        context = server_side(authority, client=True)
        cert, key = client_files(trustme.CA(), tmp_path)
        results: list[bytes | str] = []
        tls = Tls(ca_file=ca_file, cert_file=cert, key_file=key)
        async with serve(PAGE, tls=context, keep=True) as server, Fetcher(tls=tls) as fetcher:
            for step in ("stranger", "known", "torn", "known"):
                if step == "known":
                    for fresh, path in zip(
                        client_files(authority, tmp_path, "new"), (cert, key), strict=True
                    ):
                        fresh.replace(path)
                if step == "torn":
                    cert.write_bytes(cert.read_bytes()[:200])
                got = await outcome(fetcher, server.url)
                results.append(got.result if isinstance(got, FetchError) else got)
        return results

    assert asyncio.run(run())[1:] == [b"g 7\n", "tls", b"g 7\n"]


def test_files_that_cannot_be_used_are_named(authority: trustme.CA, ca_file: Path, tmp_path: Path) -> None:
    cert, key = client_files(authority, tmp_path)
    other = client_files(authority, tmp_path, "other")[1]
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    locked = tmp_path / "locked.key"
    secret = load_pem_private_key(key.read_bytes(), None)
    locked.write_bytes(
        secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"swordfish"))
    )
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing here\n")
    cases = {
        "gone.pem": Tls(ca_file=tmp_path / "gone.pem"),
        "empty.pem": Tls(ca_file=empty),
        "other.key": Tls(ca_file=ca_file, cert_file=cert, key_file=other),
        "locked.key": Tls(ca_file=ca_file, cert_file=cert, key_file=locked),
        "client.pem": Tls(cert_file=cert),
        tmp_path.name: Tls(ca_file=tmp_path),
    }

    async def run(tls: Tls) -> bytes | FetchError:
        async with Fetcher(tls=tls) as fetcher:
            return await outcome(fetcher, "https://127.0.0.1:9/metrics")

    for name, tls in cases.items():
        got = asyncio.run(run(tls))
        assert isinstance(got, FetchError) and got.result == "tls", name
        assert name in got.detail


def test_settings_that_make_no_sense() -> None:
    with pytest.raises(ValueError):
        Tls(key_file=Path("key.pem"))
