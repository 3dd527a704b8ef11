"""Which declared TYPE a sample falls under."""

from __future__ import annotations

UNTYPED = "untyped"

#: What a sample name adds to its family's, and the types that own it.
SUFFIXES: dict[str, frozenset[str]] = {
    "_bucket": frozenset({"histogram", "gaugehistogram"}),
    "_count": frozenset({"histogram", "summary"}),
    "_sum": frozenset({"histogram", "summary"}),
    "_gcount": frozenset({"gaugehistogram"}),
    "_gsum": frozenset({"gaugehistogram"}),
    "_total": frozenset({"counter"}),
    "_created": frozenset({"counter", "histogram", "summary"}),
    "_info": frozenset({"info"}),
}


def type_of(sample: str, types: dict[str, str]) -> tuple[str, str]:
    """(family, type) of a sample name. A family of its own name wins; then a family that owns the suffix."""
    declared = types.get(sample)
    if declared is not None:
        return sample, declared
    for suffix, owners in SUFFIXES.items():
        if sample.endswith(suffix):
            base = sample[: -len(suffix)]
            owner = types.get(base)
            if owner in owners:
                # The start time of a counter is not a count.
                return base, "gauge" if suffix == "_created" else owner
    return sample, UNTYPED
