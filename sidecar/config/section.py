"""What every part of the config has in common, and how its shape is asked for."""

from __future__ import annotations

from typing import Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.fields import FieldInfo

from sidecar.config.forms import Form
from sidecar.config.problem import KeyPath


class Section(BaseModel):
    """A mapping with known keys. Unknown ones are errors; a key without a value is a key left out."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty_keys(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if value is not None or key not in cls.model_fields}


def section_in(annotation: Any) -> type[Section] | None:
    """The section that an annotation holds: itself, optional, or as the items of a list."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next((found for one in get_args(annotation) if (found := section_in(one))), None)


def is_list(annotation: Any) -> bool:
    """Whether the value is a list of sections or mappings."""
    return get_origin(annotation) is tuple


def form_of(field: FieldInfo) -> Form | None:
    form = next((one for one in field.metadata if isinstance(one, Form)), None)
    return form.over(field.annotation) if form else None


def meaning_of(field: FieldInfo) -> str:
    """What the key is for, as its annotation says."""
    return next((one for one in field.metadata if isinstance(one, str)), "")


def section_at(root: type[Section], path: KeyPath) -> type[Section] | None:
    """The section whose keys stand directly below `path`; None where there is none."""
    section: type[Section] | None = root
    for step in path:
        if isinstance(step, str):
            field = section.model_fields.get(step) if section else None
            section = section_in(field.annotation) if field else None
    return section


def field_at(root: type[Section], path: KeyPath) -> FieldInfo | None:
    """The field of a key; of the list, where the path ends in an index."""
    while path and isinstance(path[-1], int):
        path = path[:-1]
    section = section_at(root, path[:-1]) if path else None
    return section.model_fields.get(str(path[-1])) if section else None
