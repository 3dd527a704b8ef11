"""Every recorded HTTP fault has an outcome: a page, or a failure of a stated class."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from sidecar.targets.failure import FetchError
from sidecar.targets.fetch import Fetcher, Page

BODY = b"# TYPE c_total counter\nc_total 123456\ng 7\n"
BIG = b"".join(b'g{i="%d"} %d\n' % (i, i) for i in range(2000))
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nServer: uvicorn\r\n"
LIMIT = 200_000

Writer = asyncio.StreamWriter


def sized(body: bytes, head: bytes = OK) -> bytes:
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def chunked(*chunks: bytes) -> bytes:
    return (
        OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in chunks)
    )


def gzipped(body: bytes) -> bytes:
    return sized(body, OK + b"Content-Encoding: gzip\r\n")


def redirect(status: int, location: str) -> bytes:
    return b"HTTP/1.1 %d Moved\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % (status, location.encode())


async def drip(_: str, writer: Writer) -> None:
    writer.write(OK + b"Content-Length: 1000\r\n\r\n")
    for byte in BODY * 20:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.02)


async def drip_head(_: str, writer: Writer) -> None:
    for byte in OK * 5:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.02)


async def never(_: str, writer: Writer) -> None:
    await asyncio.sleep(60)


async def reset(_: str, writer: Writer) -> None:
    """Hang up with a reset instead of a farewell."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def reset_in_body(_: str, writer: Writer) -> None:
    writer.write(OK + b"Content-Length: 1000\r\n\r\nhalf")
    await writer.drain()
    await asyncio.sleep(0.02)
    await reset(_, writer)


async def endless(_: str, writer: Writer) -> None:
    writer.write(OK + b"Transfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
        await writer.drain()


async def endless_head(_: str, writer: Writer) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X-Junk: " + b"x" * 4000 + b"\r\n")
        await writer.drain()


async def endless_head_line(_: str, writer: Writer) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nX-Junk: ")
    while True:
        writer.write(b"x" * 4000)
        await writer.drain()


async def endless_close_delimited(_: str, writer: Writer) -> None:
    writer.write(OK + b"\r\n")
    while True:
        writer.write(b"x" * 65536)
        await writer.drain()


async def slash(head: str, writer: Writer) -> None:
    writer.write(sized(BODY) if head.startswith("GET /metrics/ ") else redirect(307, "/metrics/"))


async def login(head: str, writer: Writer) -> None:
    html = sized(b"<html>Sign in</html>", b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n")
    writer.write(html if head.startswith("GET /login ") else redirect(302, "/login"))


BOMB = gzip.compress(b"0" * 30_000_000, 9)

#: name → what the server does, and the result or the page's (body, whole).
CASES: dict[str, tuple[Any, str | tuple[bytes, bool]]] = {
    "ok": (sized(BODY), (BODY, True)),
    "ok-chunked": (chunked(BODY[:10], BODY[10:], b""), (BODY, True)),
    "ok-http-1.0": (sized(BODY, b"HTTP/1.0 200 OK\r\n"), (BODY, True)),
    "gzip": (gzipped(gzip.compress(BODY)), (BODY, True)),
    "gzip-large": (gzipped(gzip.compress(b"0123456789" * 19_000)), (b"0123456789" * 19_000, True)),
    "gzip-close-delimited": (OK + b"Content-Encoding: x-gzip\r\n\r\n" + gzip.compress(BODY), (BODY, True)),
    # Nothing says that it is compressed: the bytes go to the parser, which refuses what is no text.
    "gzip-nohdr": (sized(gzip.compress(BODY, mtime=0)), (gzip.compress(BODY, mtime=0), True)),
    "gzip-cut": (gzipped(gzip.compress(BIG)[: len(gzip.compress(BIG)) // 2]), "parse_error"),
    "gzip-cut-trailer": (gzipped(gzip.compress(BIG)[:-1]), "parse_error"),
    "gzip-empty": (gzipped(b""), "parse_error"),
    "gzip-broken": (gzipped(gzip.compress(BIG)[:100] + b"\xff" * 200), "parse_error"),
    "gzip-not": (gzipped(BODY), "parse_error"),
    "gzip-bad-checksum": (gzipped(gzip.compress(BODY)[:-8] + b"\0" * 8), "parse_error"),
    "gzip-two-members": (gzipped(gzip.compress(BODY) * 2), "parse_error"),
    "gzip-bomb": (gzipped(BOMB), "too_large"),
    "gzip-bomb-naive": (gzipped(gzip.compress(b"0" * (LIMIT + 1))), "too_large"),
    "zstd-unknown": (sized(b"(\xb5/\xfd", OK + b"Content-Encoding: zstd\r\n"), "http_error"),
    "deflate-unknown": (sized(b"x\x9c", OK + b"Content-Encoding: deflate\r\n"), "http_error"),
    "gzip-twice-unknown": (sized(b"x", OK + b"Content-Encoding: gzip, gzip\r\n"), "http_error"),
    "cut-cl": (sized(BODY)[:-12], "http_error"),
    "cut-chunked": (chunked(BODY), "http_error"),
    "cut-in-chunk": (chunked(BODY)[:-12], "http_error"),
    "bad-chunk-size": (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n", "http_error"),
    "bad-content-length": (OK + b"Content-Length: many\r\n\r\nabc", "http_error"),
    "close-delimited": (OK + b"\r\n" + BODY, (BODY, False)),
    # The number ends in mid-air and nothing tells: `whole` is what the parser refuses it by.
    "cut-close": (OK + b"\r\n" + b"# TYPE c_total counter\nc_total 1234", (BODY[:35], False)),
    "redirect-login": (login, (b"<html>Sign in</html>", True)),
    "redirect-slash": (slash, (BODY, True)),
    "redirect-loop": (redirect(302, "/metrics"), "http_error"),
    "redirect-offhost": (redirect(302, "http://169.254.169.254/latest/meta-data"), "http_error"),
    "redirect-scheme": (redirect(302, "file:///etc/passwd"), "http_error"),
    "redirect-nowhere": (b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", "http_error"),
    "redirect-nonsense": (redirect(302, "http://[::bad/"), "http_error"),
    "401": (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 4\r\n\r\nno!\n", "unauthorized"),
    "403": (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "unauthorized"),
    "404": (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "not_found"),
    "500": (sized(BODY, b"HTTP/1.1 500 Internal Server Error\r\n"), "http_error"),
    "503-metrics": (sized(BODY, b"HTTP/1.1 503 Service Unavailable\r\n"), "http_error"),
    "206": (sized(BODY, b"HTTP/1.1 206 Partial Content\r\n"), "http_error"),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", "http_error"),
    "empty200": (sized(b""), (b"", True)),
    "slow-drip": (drip, "timeout"),
    "slow-head": (drip_head, "timeout"),
    "never": (never, "timeout"),
    "rst": (reset, "http_error"),
    "rst-in-body": (reset_in_body, "http_error"),
    "empty-reply": (b"", "http_error"),
    "no-http": (b"SSH-2.0-OpenSSH_9.2\r\n", "http_error"),
    "huge": (OK + b"Content-Length: 50000000\r\n\r\n" + b"x" * 1000, "too_large"),
    "one-too-many": (sized(b"x" * (LIMIT + 1)), "too_large"),
    "just-fits": (sized(b"x" * LIMIT), (b"x" * LIMIT, True)),
    "endless": (endless, "too_large"),
    "endless-close-delimited": (endless_close_delimited, "too_large"),
    "endless-head": (endless_head, "http_error"),
    "endless-head-line": (endless_head_line, "http_error"),
}

SLOW = {"slow-drip", "slow-head", "never"}


def outcome(get: Callable[[], Awaitable[Page]]) -> Page | FetchError:
    async def run() -> Page | FetchError:
        try:
            return await get()
        except FetchError as exc:
            return exc

    return asyncio.run(run())


@pytest.mark.parametrize("case", CASES)
def test_outcome(case: str, serve: Any) -> None:
    answer, expected = CASES[case]

    async def get() -> Page:
        loop = asyncio.get_running_loop()
        async with serve(answer) as server, Fetcher() as fetcher:
            deadline = loop.time() + (0.3 if case in SLOW else 20.0)
            return await fetcher.get(server.url, deadline=deadline, limit=LIMIT)

    got = outcome(get)
    if isinstance(expected, str):
        assert isinstance(got, FetchError), got
        assert got.result == expected, got.detail
        assert got.detail.isprintable() and got.detail.isascii() and len(got.detail) < 160
        assert got.__cause__ is None and (got.__context__ is None or got.__suppress_context__)
    else:
        assert isinstance(got, Page), got.detail
        assert (got.body, got.whole) == expected
        assert got.status == 200


def test_every_recorded_fault_has_an_outcome() -> None:
    recorded = json.loads((Path(__file__).parent / "http_faults" / "results.json").read_text())
    assert {row["case"] for row in recorded} <= set(CASES)


@pytest.mark.parametrize("status", [200, 204, 401, 404, 429, 500, 503])
def test_any_status_is_an_answer_where_asked(status: int, serve: Any) -> None:
    head = b"HTTP/1.1 %d Whatever\r\nServer: triton\r\n" % status
    answer = head + b"\r\n" if status == 204 else sized(b"not yet", head)

    async def get() -> Page:
        async with serve(answer) as server, Fetcher() as fetcher:
            deadline = asyncio.get_running_loop().time() + 20
            return await fetcher.get(server.url, deadline=deadline, any_status=True)

    got = outcome(get)
    assert isinstance(got, Page)
    assert (got.status, got.server, got.whole) == (status, "triton", True)
    assert got.body == (b"" if status == 204 else b"not yet")


def test_redirects_never_leave_the_origin(serve: Any) -> None:
    """Another host, another port, another scheme: not even a connection is made."""

    async def run() -> tuple[list[str], int]:
        details = []
        async with serve(sized(BODY)) as other:
            for place in (
                f"http://127.0.0.1:{other.port}/metrics",
                f"http://localhost:{other.port}/metrics",
                f"//127.0.0.1:{other.port}/metrics",
                f"http://user:secret@127.0.0.1:{other.port}/x?token=secret",
                f"https://127.0.0.1:{other.port}/metrics",
            ):
                async with serve(redirect(307, place)) as server, Fetcher() as fetcher:
                    with pytest.raises(FetchError) as failed:
                        await fetcher.get(server.url, deadline=asyncio.get_running_loop().time() + 20)
                    assert failed.value.result == "http_error"
                    details.append(failed.value.detail)
            return details, other.connections

    details, connections = asyncio.run(run())
    assert connections == 0
    assert all("another origin" in detail and "secret" not in detail for detail in details)


def test_a_redirect_loop_is_left_after_three(serve: Any) -> None:
    async def run() -> int:
        async with serve(redirect(302, "/metrics"), keep=True) as server, Fetcher() as fetcher:
            with pytest.raises(FetchError, match="more than 3 redirects"):
                await fetcher.get(server.url, deadline=asyncio.get_running_loop().time() + 20)
            return len(server.heads)

    assert asyncio.run(run()) == 4


def test_what_is_sent(serve: Any) -> None:
    async def run() -> str:
        async with serve(sized(BODY)) as server, Fetcher() as fetcher:
            await fetcher.get(server.url, deadline=asyncio.get_running_loop().time() + 20)
            return str(server.heads[0])

    lines = asyncio.run(run()).lower().split("\r\n")
    assert lines[0] == "get /metrics http/1.1"
    assert "accept: text/plain;version=0.0.4" in lines
    assert "accept-encoding: identity" in lines
    assert any(line.startswith("user-agent: inference-sidecar/") for line in lines)
    assert not any(line.startswith(("authorization:", "cookie:")) for line in lines)


def test_one_connection_serves_many_fetches(serve: Any) -> None:
    async def run() -> tuple[int, int]:
        async with serve(sized(BODY), keep=True) as server, Fetcher() as fetcher:
            for _ in range(20):
                await fetcher.get(server.url, deadline=asyncio.get_running_loop().time() + 20)
            return server.connections, len(server.heads)

    assert asyncio.run(run()) == (1, 20)


def test_a_server_that_hangs_up_between_fetches_is_connected_to_again(serve: Any) -> None:
    async def run() -> int:
        async with serve(sized(BODY)) as server, Fetcher() as fetcher:
            for _ in range(20):
                page = await fetcher.get(server.url, deadline=asyncio.get_running_loop().time() + 20)
                assert page.body == BODY
            return int(server.connections)

    assert asyncio.run(run()) == 20


def test_a_fault_does_not_spoil_the_next_fetch(serve: Any) -> None:
    turn = iter([drip, endless, None, sized(BODY)[:-5], None])

    async def answer(head: str, writer: Writer) -> None:
        what = next(turn)
        if callable(what):
            await what(head, writer)
        else:
            writer.write(what or sized(BODY))

    async def run() -> list[str]:
        results = []
        async with serve(answer) as server, Fetcher() as fetcher:
            for _ in range(5):
                try:
                    now = asyncio.get_running_loop().time()
                    page = await fetcher.get(server.url, deadline=now + 0.5, limit=LIMIT)
                    results.append("ok" if page.body == BODY else "wrong")
                except FetchError as exc:
                    results.append(exc.result)
        return results

    assert asyncio.run(run()) == ["timeout", "too_large", "ok", "http_error", "ok"]


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    got = outcome(lambda: get_once(f"http://127.0.0.1:{port}/metrics"))
    assert isinstance(got, FetchError) and got.result == "refused"
    assert f"127.0.0.1:{port}" in got.detail


@pytest.mark.parametrize("host", ["no-such-host.invalid", "x" * 70 + ".invalid"])
def test_a_name_that_does_not_resolve(host: str) -> None:
    got = outcome(lambda: get_once(f"http://{host}/metrics"))
    assert isinstance(got, FetchError)
    assert got.result == ("dns" if len(host) < 64 else "http_error"), got.detail


@pytest.mark.parametrize(
    "url", ["", "metrics", "ftp://127.0.0.1/x", "http://", "http://[::bad/", "http://h:99999/"]
)
def test_an_url_that_cannot_be_used(url: str) -> None:
    got = outcome(lambda: get_once(url))
    assert isinstance(got, FetchError) and got.result == "http_error"
    assert "URL" in got.detail


async def get_once(url: str) -> Page:
    async with Fetcher() as fetcher:
        return await fetcher.get(url, deadline=asyncio.get_running_loop().time() + 20)


def test_a_deadline_that_has_passed_is_a_timeout(serve: Any) -> None:
    async def get() -> Page:
        async with serve(sized(BODY)) as server, Fetcher() as fetcher:
            return await fetcher.get(server.url, deadline=asyncio.get_running_loop().time() - 1)

    got = outcome(get)
    assert isinstance(got, FetchError) and got.result == "timeout"


def test_only_the_results_of_the_schema() -> None:
    with pytest.raises(ValueError):
        FetchError("broken", "")
