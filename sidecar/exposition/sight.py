"""First sight of a series: prometheus_client's parser makes name and labels of the text before a value."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client.parser import text_string_to_metric_families

from sidecar.exposition.errors import shown

MAX_LABELS = 64

Labels = tuple[tuple[str, str], ...]
Identity = tuple[str, Labels]


def _parse(text: str) -> list[Identity]:
    found = []
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if len(sample.labels) > MAX_LABELS:
                raise ValueError(f"more than {MAX_LABELS} labels")
            # An empty label value is the same as no label; the order of labels means nothing.
            labels = tuple(sorted((key, value) for key, value in sample.labels.items() if value))
            found.append((sample.name, labels))
    return found


def _parse_one(prefix: bytes) -> Identity | str:
    try:
        (identity,) = _parse(prefix.decode() + " 0\n")
    except UnicodeDecodeError:
        return "not UTF-8"
    except Exception as error:  # the library raises whatever its string slicing meets
        return shown(str(error).encode()) or type(error).__name__
    return identity


def identify(prefixes: Sequence[bytes]) -> list[Identity | str]:
    """Name and sorted labels of each `name{labels}` prefix, or the reason why it is malformed.

    All are parsed in one call, since that is cheapest; only if one of them is malformed, each for itself.
    """
    try:
        text = "".join([prefix.decode() + " 0\n" for prefix in prefixes])
        found = _parse(text)
        if len(found) == len(prefixes):
            return list(found)
    except Exception:
        pass
    return [_parse_one(prefix) for prefix in prefixes]
