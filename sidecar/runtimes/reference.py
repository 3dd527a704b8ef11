"""Which runtime gives which signal, as Markdown, from the mappings themselves."""

from __future__ import annotations

from sidecar.runtimes.mapping import Mapping, Rule
from sidecar.runtimes.registry import ADAPTERS, Registry
from sidecar.schema import RUNTIME, SIGNALS, Method, Status

_INTRO = """\
# Signals by runtime

Generated from the mappings. **native**: the runtime's own metric; *derived*, *estimated*: computed, and marked
so in `inference_signal_info`; flag: the runtime must be told to expose it; –: it can't be known. An empty cell:
not exposed. `inference-sidecar doctor` says it for your own runtime, with the flag or version that helps.

"""


def coverage_markdown() -> str:
    """docs/runtimes/README.md."""
    mappings = {name: Registry().mapping(name) for name in ADAPTERS}
    lines = [
        "| signal | " + " | ".join(mappings) + " |",
        "|---" * (len(mappings) + 1) + "|",
    ]
    for signal in RUNTIME:
        cells = (_cell(mapping, signal.name) for mapping in mappings.values())
        lines.append(f"| `{signal.family}` | " + " | ".join(cells) + " |")
    return _INTRO + "\n".join(lines) + "\n"


def sources_markdown(mapping: Mapping) -> str:
    """A table of one runtime: each signal, where it comes from, and what to know of it."""
    rows: dict[str, tuple[dict[str, None], dict[str, None]]] = {}

    def add(name: str, source: str, note: str) -> None:
        sources, notes = rows.setdefault(name, ({}, {}))
        sources[source] = None
        notes |= {note: None} if note else {}

    for name, rules in mapping.signals.items():
        for rule in rules:
            told = ":".join((name, *rule.labels.values()))
            add(told, f"`{_spelt(rule)}`", _marked(rule.method, rule.note))
    for name, origins in mapping.computed.items():
        for origin in origins:
            add(name, f"`{origin.source}`", _marked(origin.method, origin.note))
    lines = ["| signal | where from, the best first | remarks |", "|---|---|---|"]
    for name, (sources, notes) in rows.items():
        signal, _, outcome = name.partition(":")
        shown = SIGNALS[signal].family + (f'{{outcome="{outcome}"}}' if outcome else "")
        lines.append(f"| `{shown}` | {', '.join(sources)} | {'; '.join(notes)} |")
    return "\n".join(lines) + "\n"


def _spelt(rule: Rule) -> str:
    return " − ".join((" + ".join((rule.metric, *rule.plus)), *rule.minus))


def _marked(method: Method, note: str) -> str:
    return note if method is Method.NATIVE else f"*{method.value}*" + (f": {note}" if note else "")


def _cell(mapping: Mapping, signal: str) -> str:
    sources = [*mapping.signals.get(signal, ()), *mapping.computed.get(signal, ())]
    if sources:
        method = sources[0].method
        return "**native**" if method is Method.NATIVE else f"*{method.value}*"
    why = mapping.absent.get(signal)
    if why is not None and why.status is Status.NEEDS_FLAG:
        return "flag"
    if why is not None and why.status is Status.NOT_OBSERVABLE:
        return "–"
    return ""
