"""Pages from files: what `map`, `doctor` and `replay` read."""

from __future__ import annotations

import gzip
import sys
import zlib
from pathlib import Path

from sidecar.runtimes.adapter import Answer

_GZIP_MAGIC = b"\x1f\x8b"


class UnreadableError(Exception):
    """A file that can't be read; the message names it and the cause."""


def read_file(name: str) -> bytes:
    """A file's bytes, `-` for standard input, unpacked when they are gzip. Raises UnreadableError."""
    try:
        body = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return gzip.decompress(body) if body.startswith(_GZIP_MAGIC) else body
    except (OSError, EOFError, zlib.error) as error:
        cause = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UnreadableError(f"{name}: {cause}") from None


def answer_of(body: bytes) -> Answer:
    """A file as an endpoint's answer: whole, as far as the file system knows; `cut` tells more."""
    return Answer(200, body, whole=True)


def cut(body: bytes) -> bool:
    """Whether a page ends in mid-air as far as can be told from a file."""
    return bool(body) and not body.endswith(b"\n")
