"""A file and overrides in, a config out; or everything that is wrong with it, in one go."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sidecar.config.document import MAX_BYTES, Document, read_document
from sidecar.config.faults import problems_of
from sidecar.config.forms import nearest
from sidecar.config.model import Config
from sidecar.config.overrides import override
from sidecar.config.problem import ConfigError, KeyPath, Origins, Problem, kind_of, shown
from sidecar.config.targets import RUNTIMES


def load(path: str | os.PathLike[str] | None = None, overrides: Iterable[str] = ()) -> Config:
    """The config of a file, or without one the defaults. Raises ConfigError, never anything else."""
    if path is None:
        return _checked(Document({}, Origins("defaults")), overrides, None)
    name = os.fspath(path)
    return load_bytes(_bytes_of(name), name, overrides, Path(name).absolute().parent)


def load_bytes(raw: bytes, file: str, overrides: Iterable[str] = (), folder: Path | None = None) -> Config:
    """The config of a text. Relative files in it are seen from `folder`. Raises ConfigError."""
    document = read_document(raw, file)
    if document.problems and document.data is None:
        raise ConfigError(document.problems)
    if not raw.strip():
        raise ConfigError([Problem(file, 0, 0, "", "the file is empty", "write {} to take every default")])
    return _checked(document, overrides, folder)


def _checked(document: Document, overrides: Iterable[str], folder: Path | None) -> Config:
    override(document, overrides)
    config = None
    if not isinstance(document.data, dict):
        says, mend = f"expected keys, found {kind_of(document.data)}", "begin with a line like `interval: 2s`"
        document.problems.append(document.origins.problem((), says, mend))
        raise ConfigError(document.problems)
    document.problems.extend(_across(document.data, document.origins))
    try:
        config = Config.model_validate(document.data, context=folder)
    except ValidationError as error:
        document.problems.extend(problems_of(error, document.origins))
    else:
        config._origins = document.origins
        document.problems.extend(_of_whole(config))
    if document.problems or config is None:
        raise ConfigError(
            sorted(dict.fromkeys(document.problems), key=lambda one: (one.file, one.line, one.column))
        )
    return config


def _across(data: dict[str, Any], origins: Origins) -> Iterator[Problem]:
    """What no single key shows: checked on the raw values, so that it is told beside all other problems."""
    for kind in ("targets", "slos"):
        yield from _repeated(data, kind, "name", "each one needs its own name", origins)
    yield from _unknown_runtimes(data, origins)


def _repeated(data: dict[str, Any], kind: str, key: str, mend: str, origins: Origins) -> Iterator[Problem]:
    first: dict[Any, int] = {}
    for index, item in _mappings_in(data, kind):
        name = item.get(key) or ("local" if kind == "targets" else None)
        if not isinstance(name, str):
            continue
        if name in first:
            path: KeyPath = (kind, index, key) if key in item else (kind, index)
            yield origins.problem(path, f"{shown(name)} is the {key} of {kind}[{first[name]}], too", mend)
        first.setdefault(name, index)


def _unknown_runtimes(data: dict[str, Any], origins: Origins) -> Iterator[Problem]:
    own = [str(one["runtime"]) for _, one in _mappings_in(data, "mappings") if "runtime" in one]
    known = ["auto", *dict.fromkeys([*RUNTIMES, *_folders(), *own])]
    for index, target in _mappings_in(data, "targets"):
        name = target.get("runtime")
        if isinstance(name, str) and name not in known:
            mend = nearest(name, known) or f"known are {', '.join(known)}"
            yield origins.problem(("targets", index, "runtime"), f"{shown(name)} isn't a known runtime", mend)


def _folders() -> list[str]:
    """Runtimes that have a mapping in this package: a new one needs no entry elsewhere."""
    return sorted(one.parent.name for one in Path(__file__).parents[1].glob("runtimes/*/mapping.yaml"))


def _mappings_in(data: dict[str, Any], key: str) -> Iterator[tuple[int, dict[str, Any]]]:
    items = data.get(key)
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict):
            yield index, item


def _of_whole(config: Config) -> Iterator[Problem]:
    """What only the finished config shows."""
    pages: dict[tuple[str, str | None], str] = {}
    for index, target in enumerate(config.targets):
        path: KeyPath = ("targets", index)
        if target.staleness < target.interval:
            says = "values would vanish between two readings: staleness is shorter than interval"
            yield config.problem((*path, "staleness"), says, "three intervals is usual")
        same = pages.setdefault((target.url, target.metrics_path), target.name)
        if same != target.name:
            says = f"reads the same page as {same}: everything would count twice"
            yield config.problem((*path, "url"), says, "remove one of the two")


def _bytes_of(name: str) -> bytes:
    try:
        with Path(name).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        says, mend = "there is no such file", "check the path; without a config file, defaults are used"
    except IsADirectoryError:
        says, mend = "this is a directory", "name the file in it"
    except PermissionError:
        says, mend = "it can't be read: permission denied", f"let user {os.getuid()} read it"
    except (OSError, ValueError) as error:
        says, mend = f"it can't be read: {getattr(error, 'strerror', None) or 'not a file name'}", ""
    raise ConfigError([Problem(name, 0, 0, "", says, mend)]) from None
