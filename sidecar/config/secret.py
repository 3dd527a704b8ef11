"""Secrets, known by the file that holds them and by nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sidecar.config.forms import FilePath, file_name

MAX_BYTES = 64 * 1024


class SecretUnreadable(Exception):
    """A secret's file that can't be used; the message names the file and never what is in it."""


@dataclass(frozen=True, slots=True)
class SecretFile:
    """A file with a secret. Only `read` ever sees the content, and nobody keeps it."""

    path: Path

    def read(self) -> str:
        """The content as it is now (secrets rotate), without its last newline. Raises SecretUnreadable."""
        return self._text().removesuffix("\n").removesuffix("\r")

    def read_line(self) -> str:
        """Like `read`, for what goes into a header: one line of printable ASCII, not empty."""
        text = self.read().strip()
        if not text:
            raise SecretUnreadable(f"{self.path}: the file is empty")
        if not (text.isascii() and text.isprintable()):
            raise SecretUnreadable(f"{self.path}: more than one line, or not plain ASCII")
        return text

    def _text(self) -> str:
        try:
            with self.path.open("rb") as file:
                raw = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise SecretUnreadable(f"{self.path}: {error.strerror or 'cannot be read'}") from None
        except ValueError:
            raise SecretUnreadable("the name of a secret's file holds a NUL character") from None
        if len(raw) > MAX_BYTES:
            raise SecretUnreadable(f"{self.path}: larger than 64 KiB")
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise SecretUnreadable(f"{self.path}: not UTF-8") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret(FilePath):
    """The form of a key that ends in `_file` and names a secret."""

    def read(self, value: Any) -> Any:
        return value if isinstance(value, SecretFile) else SecretFile(Path(file_name(value)))

    def placed(self, value: Any, context: Any) -> Any:
        return SecretFile(Path(context, value.path)) if isinstance(context, Path) else value

    def write(self, value: Any) -> str:
        return str(value.path)

    def describe(self) -> str:
        return "file with a secret"
