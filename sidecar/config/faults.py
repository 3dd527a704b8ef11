"""pydantic's errors → problems that name the key, where it stands, and the mend."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from pydantic import ValidationError

from sidecar.config.forms import nearest
from sidecar.config.model import Config
from sidecar.config.problem import KeyPath, Mistake, Origins, Problem, kind_of, looks_secret, shown
from sidecar.config.secret import Secret
from sidecar.config.section import Section, field_at, form_of, is_list, meaning_of, section_at, section_in

#: More would help nobody, and each look-up of a near key takes time.
MAX_PROBLEMS = 100

#: What other tools call it.
_OTHER_NAMES = {
    "bearer_token": "bearer_token_file",
    "token": "bearer_token_file",
    "password": "password_file",
    "key": "key_file",
    "scrape_interval": "interval",
    "scrape_timeout": "timeout",
    "address": "url",
    "host": "url",
    "latency": "threshold",
    "target": "objective",
    "window": "period",
    "static_configs": "targets",
}


def problems_of(error: ValidationError, origins: Origins) -> Iterator[Problem]:
    for fault in islice(error.errors(include_url=False), MAX_PROBLEMS):
        path: KeyPath = tuple(fault["loc"])
        message, mend = _said(fault["type"], path, fault.get("input"), fault.get("ctx", {}).get("error"))
        yield origins.problem(path, message, mend)


def _said(kind: str, path: KeyPath, value: Any, mistake: Any) -> tuple[str, str]:
    if isinstance(mistake, Mistake):
        said = mistake.says
        if mistake.echo:
            said = f"{'this' if _is_secret(path) else shown(value)} {said}"
        return said, mistake.mend
    if kind == "extra_forbidden":
        return "unknown key", _mend_of_key(path)
    if kind == "missing":
        field = field_at(Config, path)
        form = form_of(field) if field else None
        return "required", f"{meaning_of(field)} Write: {form.describe()}." if field and form else ""
    if kind in ("model_type", "dict_type"):
        return f"expected a mapping, found {kind_of(value)}", _keys_of(section_at(Config, path))
    if kind in ("tuple_type", "list_type"):
        return f"expected a list, found {kind_of(value)}", "start each entry with `- `"
    return "can't be used", ""


def _is_secret(path: KeyPath) -> bool:
    """For a key that is known its form tells (`max_tokens` is no secret), for others their name."""
    field = field_at(Config, path)
    return isinstance(form_of(field), Secret) if field else looks_secret(path)


def _mend_of_key(path: KeyPath) -> str:
    """The key that was meant: under its name here, the nearest one, or in the section that it belongs to."""
    section, name = section_at(Config, path[:-1]), str(path[-1])
    if section is None:
        return ""
    known = section.model_fields
    other = _OTHER_NAMES.get(name.lower())
    if other in known:
        why = (
            ": secrets are read from files"
            if other in ("bearer_token_file", "password_file", "key_file")
            else ""
        )
        return f"write {other}{why}"
    if close := nearest(name, list(known)):
        return close
    if home := next(_homes(section, (name, other)), ""):
        return f"it belongs under {home}"
    return _keys_of(section)


def _homes(section: type[Section], names: tuple[str, str | None], above: str = "") -> Iterator[str]:
    """Sections below this one that know the key."""
    for key, field in section.model_fields.items():
        inner = section_in(field.annotation)
        if inner is None:
            continue
        home = f"{above}{key}{'[]' if is_list(field.annotation) else ''}"
        known = next((name for name in names if name in inner.model_fields), None)
        if known:
            yield f"{home}, as {known}" if known != names[0] else home
        yield from _homes(inner, names, f"{home}.")


def _keys_of(section: type[Section] | None) -> str:
    return f"known keys are {', '.join(section.model_fields)}" if section else ""
