"""`doctor` at an address that leads to one replica or another, as the connection has it."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

import pytest

from sidecar.cli import main
from sidecar.commands import doctor

PAGE = Path(__file__).parent.parent / "runtimes" / "vllm" / "pages" / "03_s2_after_preempt.txt"


def replica(start: float, times: int) -> bytes:
    """The captured page of a process that began then and has generated so many times as much."""
    text = re.sub(
        r"^(process_start_time_seconds) .*$", rf"\g<1> {start}", PAGE.read_text(), flags=re.MULTILINE
    )
    tokens = r"^(vllm:generation_tokens_total\{.*\}) (\S+)$"
    return re.sub(
        tokens, lambda line: f"{line[1]} {float(line[2]) * times}", text, flags=re.MULTILINE
    ).encode()


@contextmanager
def service(pages: list[bytes]) -> Iterator[str]:
    """Each connection that asks for the page leads to the next replica in turn, and stays there: how many others
    are opened to look for health and models is not the matter here."""
    turns = count()

    class Replica(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            self.page = b""

        def do_GET(self) -> None:
            found = self.path == "/metrics"
            if found and not self.page:
                self.page = pages[next(turns) % len(pages)]
            body = self.page if found else b""
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Replica)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_doctor_says_that_there_are_several(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "BETWEEN_LOOKS", 0.01)
    with service([replica(1.7e9, 3), replica(1.7e9 + 500, 2), replica(1.7e9 + 900, 1)]) as url:
        assert main(["doctor", url]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "PROBLEM the address answers from several replicas in turn -> give each its own target" in said
    assert "0 of" in said, "and that nothing of them is told"


def test_doctor_at_one_replica(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "BETWEEN_LOOKS", 0.01)
    with service([replica(1.7e9, 3)]) as url:
        main(["doctor", url])
    assert "several replicas" not in " ".join(capsys.readouterr().out.split())
