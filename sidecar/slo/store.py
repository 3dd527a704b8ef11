"""State that outlives the process: keys and bytes in one SQLite file.

Nothing that happens to the file takes the sidecar down. A file that isn't ours, or is damaged, is moved
aside and never deleted; a disk that is full costs the newest state, not the last good one.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

logger = logging.getLogger(__name__)

#: "ISlo" as SQLite's application id: tells our file from any other.
APPLICATION_ID = 0x49536C6F
FORMAT = 1
PAGE = 4096


class StateStore:
    """A file of keys and bytes. `largest` bounds its size in bytes.

    Each call opens and closes the file, so `save` may run in another thread than `load`.
    """

    def __init__(self, path: Path | str, *, largest: int = 256 * 2**20) -> None:
        self.path = Path(path)
        self.largest = largest
        #: Why state was not loaded or saved the last time; empty when it was.
        self.problem = ""

    def load(self) -> dict[str, bytes]:
        """Everything saved; empty when there is no file, or none that can be used."""
        self.problem = ""
        try:
            if not self.path.exists():  # raises where a folder on the way can't be entered
                return {}
            with self._open() as database:
                return {
                    str(key): bytes(body) for key, body in database.execute("SELECT key, body FROM state")
                }
        except _Foreign as error:
            self._set_aside(str(error))
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and "no such table" not in str(error):
                self._tell(f"state in {self.path} can't be read: {error}")
            else:
                self._set_aside(str(error))
        except OSError as error:
            self._tell(f"state in {self.path} can't be read: {error}")
        return {}

    def save(self, state: Mapping[str, bytes]) -> bool:
        """Replace what was saved, all or nothing; False (and `problem` says why) when it can't be."""
        now = time.time()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._open() as database, database:
                database.execute("DELETE FROM state")
                database.executemany(
                    "INSERT INTO state (key, saved, body) VALUES (?, ?, ?)",
                    [(key, now, body) for key, body in state.items()],
                )
        except _Foreign as error:
            self._set_aside(str(error))
            return False
        except (sqlite3.Error, OSError) as error:
            self._tell(f"state is kept in memory only, {self.path} can't be written: {error}")
            return False
        if self.problem:
            logger.info("state is written to %s again", self.path)
        self.problem = ""
        return True

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=5)) as database:
            (application,) = database.execute("PRAGMA application_id").fetchone()
            (version,) = database.execute("PRAGMA user_version").fetchone()
            (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if tables and application != APPLICATION_ID:
                raise _Foreign("it is another program's database")
            if tables and version != FORMAT:
                raise _Foreign(f"it has format {version}, this version writes {FORMAT}")
            database.execute(f"PRAGMA max_page_count = {max(8, self.largest // PAGE)}")
            if not tables:
                database.execute(f"PRAGMA page_size = {PAGE}")
                with database:
                    database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                    database.execute(f"PRAGMA user_version = {FORMAT}")
                    database.execute(
                        "CREATE TABLE state (key TEXT PRIMARY KEY, saved REAL NOT NULL, body BLOB NOT NULL)"
                    )
            yield database

    def _set_aside(self, why: str) -> None:
        aside = self.path.with_name(f"{self.path.name}.set-aside-{int(time.time())}")
        try:
            self.path.rename(aside)
        except OSError as error:
            self._tell(f"state in {self.path} is not used ({why}) and can't be moved: {error}")
        else:
            self._tell(f"state in {self.path} is not used ({why}); it lies in {aside.name} now")

    def _tell(self, problem: str) -> None:
        if problem != self.problem:
            logger.warning("%s", problem)
        self.problem = problem


def why_unwritable(path: Path) -> str:
    """Why state can't be kept in this file here and now, as far as can be told without writing; empty: it can."""
    if path.exists():
        if not path.is_file():
            return "it is no file"
        if not os.access(path, os.W_OK):
            return "it can't be written"
    folder = next(one for one in path.absolute().parents if one.exists())
    if not folder.is_dir():
        return f"{folder} is no folder"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"nothing can be written into {folder}"
    if os.statvfs(folder).f_bavail == 0:
        return f"the disk of {folder} is full"
    return ""


class _Foreign(Exception):
    """A database, but not one of ours."""
