"""Whether the config file changed, and the new config: all or nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from sidecar.config.load import load
from sidecar.config.model import Config

Signature = tuple[str, int, int, int]


class ConfigFile:
    """A config file (or none) and the config last read from it.

    The owner asks `changed()` now and then, and calls `reload()` when it says so or a person asks. Raises
    ConfigError when the file can't be used at first.
    """

    def __init__(self, path: str | os.PathLike[str] | None, overrides: Iterable[str] = ()) -> None:
        self.path = path
        self._overrides = tuple(overrides)
        self._seen = self._signature()
        self.config: Config = load(path, self._overrides)

    def changed(self) -> bool:
        """Whether the file is another one than at the last attempt to read it, good or bad.

        The resolved path is part of it: a mounted ConfigMap changes by turning a symlink.
        """
        return self._signature() != self._seen

    def reload(self) -> Config:
        """Read it again. Raises ConfigError and keeps the old config; `changed` waits for the next change."""
        self._seen = self._signature()  # before reading: a change meanwhile shows as another one
        self.config = load(self.path, self._overrides)
        return self.config

    def _signature(self) -> Signature | None:
        if self.path is None:
            return None
        try:
            resolved = Path(self.path).resolve()
            found = resolved.stat()
        except (OSError, ValueError, RuntimeError):  # RuntimeError: a loop of symlinks
            return None
        return str(resolved), found.st_mtime_ns, found.st_size, found.st_ino
