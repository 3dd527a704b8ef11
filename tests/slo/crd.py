"""A structural schema of Kubernetes applied to a document: types, unknown keys, required keys, patterns."""

from __future__ import annotations

import re
from typing import Any

TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}


def complaints(value: Any, schema: dict[str, Any], place: str = "") -> list[str]:
    """What the schema does not allow, with where; empty when all is well."""
    if value is None and schema.get("nullable"):
        return []
    if schema.get("x-kubernetes-int-or-string"):
        return [] if isinstance(value, (int, str)) else [f"{place} is neither a number nor a text"]
    kind = schema.get("type")
    if kind and (not isinstance(value, TYPES[kind]) or (kind != "boolean" and isinstance(value, bool))):
        return [f"{place} is no {kind}"]
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{place} is none of {schema['enum']}")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{place} does not look like {schema['pattern']}")
    if isinstance(value, list):
        for number, item in enumerate(value):
            found += complaints(item, schema.get("items", {}), f"{place}[{number}]")
    if isinstance(value, dict):
        found += _of_object(value, schema, place)
    return found


def _of_object(value: dict[str, Any], schema: dict[str, Any], place: str) -> list[str]:
    found = [f"{place} lacks {name}" for name in schema.get("required", ()) if name not in value]
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    for name, item in value.items():
        inner = f"{place}.{name}".lstrip(".")
        if properties and name in properties:
            found += complaints(item, properties[name], inner)
        elif isinstance(others, dict):
            found += complaints(item, others, inner)
        elif properties and not schema.get("x-kubernetes-preserve-unknown-fields"):
            found.append(f"{inner} is not known")
    return found
