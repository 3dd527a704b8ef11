"""Credentials: sent as they stand in their files now, and never seen anywhere else."""

from __future__ import annotations

import asyncio
import base64
import logging
import traceback
from pathlib import Path
from typing import Any

import pytest

from sidecar.targets.auth import Auth
from sidecar.targets.failure import FetchError
from sidecar.targets.fetch import Fetcher

PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ng 7\n"
SECRET = "swordfish-4711"


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


async def outcome(fetcher: Fetcher, url: str) -> bytes | FetchError:
    try:
        return (await fetcher.get(url, deadline=asyncio.get_running_loop().time() + 20)).body
    except FetchError as exc:
        return exc


def sent(serve: Any, auth: Auth) -> str:
    """The Authorization header that the server sees."""

    async def run() -> str:
        async with serve(PAGE) as server, Fetcher(auth=auth) as fetcher:
            await fetcher.get(server.url, deadline=asyncio.get_running_loop().time() + 20)
            lines = server.heads[0].split("\r\n")
            return str(next(line for line in lines if line.startswith("Authorization: "))[15:])

    return asyncio.run(run())


def test_bearer(serve: Any, tmp_path: Path) -> None:
    token = written(tmp_path / "token", f"{SECRET}\n")
    assert sent(serve, Auth(bearer_token_file=token)) == f"Bearer {SECRET}"


def test_basic(serve: Any, tmp_path: Path) -> None:
    password = written(tmp_path / "password", "pä:ss\r\n")
    user = written(tmp_path / "user", "ann\n")
    expected = "Basic " + base64.b64encode("ann:pä:ss".encode()).decode()
    assert sent(serve, Auth(username="ann", password_file=password)) == expected
    assert sent(serve, Auth(username_file=user, password_file=password)) == expected
    assert sent(serve, Auth(username="ann")) == "Basic " + base64.b64encode(b"ann:").decode()


def test_rotation_by_rename_rewrite_and_symlink(serve: Any, tmp_path: Path) -> None:
    """The last is how Kubernetes turns a mounted secret: the path stays, a link in it moves."""
    for number in (1, 2):
        (tmp_path / f"v{number}").mkdir()
        written(tmp_path / f"v{number}" / "token", f"link{number}")
    (tmp_path / "data").symlink_to("v1")
    token = tmp_path / "token"
    token.symlink_to("data/token")

    async def run() -> list[str]:
        async with serve(PAGE, keep=True) as server:
            async with Fetcher(auth=Auth(bearer_token_file=token)) as fetcher:
                for step in range(4):
                    if step == 1:
                        (tmp_path / "next").symlink_to("v2")
                        (tmp_path / "next").replace(tmp_path / "data")
                    elif step == 2:
                        written(tmp_path / "fresh", "renamed").replace(token)
                    elif step == 3:
                        written(token, "rewritten")
                    assert await outcome(fetcher, server.url) == b"g 7\n"
            return [head.split("Bearer ")[1].split("\r\n")[0] for head in server.heads]

    assert asyncio.run(run()) == ["link1", "link2", "renamed", "rewritten"]


def test_a_token_that_comes_late_or_goes(serve: Any, tmp_path: Path) -> None:
    token = tmp_path / "token"

    async def run() -> list[str]:
        results = []
        async with serve(PAGE, keep=True) as server, Fetcher(auth=Auth(bearer_token_file=token)) as fetcher:
            for step in (token.exists, lambda: written(token, SECRET), token.unlink):
                step()
                got = await outcome(fetcher, server.url)
                results.append(got.result if isinstance(got, FetchError) else "ok")
            assert len(server.heads) == 1, "nothing is asked without the token"
        return results

    assert asyncio.run(run()) == ["unauthorized", "ok", "unauthorized"]


@pytest.mark.parametrize("text", [b"", b"\n", b"two words", b"a\r\nX-Evil: 1", b"caf\xc3\xa9", b"nul\0"])
def test_a_file_that_is_no_token(text: bytes, tmp_path: Path) -> None:
    token = written(tmp_path / "token", text)

    async def run() -> bytes | FetchError:
        async with Fetcher(auth=Auth(bearer_token_file=token)) as fetcher:
            return await outcome(fetcher, "http://127.0.0.1:9/metrics")

    got = asyncio.run(run())
    assert isinstance(got, FetchError) and got.result == "unauthorized"
    assert "token" in got.detail and "words" not in got.detail and "Evil" not in got.detail


def test_a_folder_or_a_device_is_no_token(tmp_path: Path) -> None:
    async def run(path: Path) -> bytes | FetchError:
        async with Fetcher(auth=Auth(bearer_token_file=path)) as fetcher:
            return await outcome(fetcher, "http://127.0.0.1:9/metrics")

    for path in (tmp_path, Path("/dev/zero")):
        got = asyncio.run(run(path))
        assert isinstance(got, FetchError) and "not a regular file" in got.detail


def test_credentials_follow_a_redirect_on_the_same_origin(serve: Any, tmp_path: Path) -> None:
    token = written(tmp_path / "token", SECRET)
    hop = b"HTTP/1.1 307 Moved\r\nLocation: http://127.0.0.1:%d/metrics/\r\nContent-Length: 0\r\n\r\n"

    async def run() -> list[str]:
        async def answer(head: str, writer: asyncio.StreamWriter) -> None:
            port = writer.get_extra_info("sockname")[1]
            writer.write(PAGE if "/metrics/ " in head else hop % port)

        async with serve(answer) as server, Fetcher(auth=Auth(bearer_token_file=token)) as fetcher:
            assert await outcome(fetcher, server.url) == b"g 7\n"
            return list(server.heads)

    heads = asyncio.run(run())
    assert len(heads) == 2 and all(SECRET in head for head in heads)


ECHOES = {
    "status line": b"HTTP/1.1 500 %s\r\nContent-Length: 0\r\n\r\n",
    "no http": b"%s\r\n\r\n",
    "body of a 400": b"HTTP/1.1 400 Bad\r\nConnection: close\r\n\r\nhttps %s",
    "body of a 401": b"HTTP/1.1 401 No\r\nConnection: close\r\n\r\n%s",
    "location": b"HTTP/1.1 302 Go\r\nLocation: http://%s@other.invalid/%s\r\nContent-Length: 0\r\n\r\n",
    "bad location": b"HTTP/1.1 302 Go\r\nLocation: http://[%s\r\nContent-Length: 0\r\n\r\n",
    "path of a 404": b"HTTP/1.1 302 Go\r\nLocation: ?token=%s\r\nContent-Length: 0\r\n\r\n",
    "bad header": b"HTTP/1.1 200 OK\r\n%s\x00\r\n\r\n",
    "cut body": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n%s",
    "bad chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\n",
    "bad gzip": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n%s",
}


@pytest.mark.parametrize("place", ECHOES)
def test_a_server_that_sends_the_secret_back_does_not_get_it_into_our_texts(
    place: str, serve: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = written(tmp_path / "token", SECRET)
    answer = ECHOES[place].replace(b"%s", SECRET.encode())

    async def run() -> tuple[FetchError, str]:
        async with serve(answer) as server, Fetcher("t", auth=Auth(bearer_token_file=token)) as fetcher:
            got = await outcome(fetcher, f"{server.url}?key={SECRET}")
            assert isinstance(got, FetchError)
            return got, repr(fetcher)

    with caplog.at_level(logging.DEBUG):
        error, shown = asyncio.run(run())
        logging.getLogger("test").error("scrape failed", exc_info=error)
    told = [error.detail, str(error), repr(error), shown, *traceback.format_exception(error)]
    told += [record.getMessage() for record in caplog.records if record.name != "asyncio"]
    assert SECRET not in "".join(told) and SECRET not in caplog.text


def test_credentials_in_the_url_are_refused_unread() -> None:
    async def run() -> bytes | FetchError:
        async with Fetcher() as fetcher:
            return await outcome(fetcher, f"http://ann:{SECRET}@127.0.0.1:9/metrics")

    got = asyncio.run(run())
    assert isinstance(got, FetchError) and got.result == "unauthorized"
    assert SECRET not in got.detail and "ann" not in got.detail


@pytest.mark.parametrize(
    "keys",
    [
        {"bearer_token_file": Path("t"), "username": "ann"},
        {"username": "ann", "username_file": Path("u")},
        {"password_file": Path("p")},
    ],
)
def test_settings_that_exclude_each_other(keys: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Auth(**keys)


def test_a_long_path_is_shown_by_its_end(tmp_path: Path) -> None:
    async def run(path: Path) -> bytes | FetchError:
        async with Fetcher(auth=Auth(bearer_token_file=path)) as fetcher:
            return await outcome(fetcher, "http://127.0.0.1:9/metrics")

    got = asyncio.run(run(tmp_path / ("deep/" * 40) / "runtime-token"))
    assert isinstance(got, FetchError) and "runtime-token: No such file" in got.detail
    assert len(got.detail) < 160
