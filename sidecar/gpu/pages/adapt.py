"""A read page → rows of the schema, by a table. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite

from sidecar.exposition import ReadPage, ReadSample
from sidecar.gpu.allocation import Claim, Leaf, Owner
from sidecar.gpu.nvml.codes import CLOCK_REASONS, RECOVERY_ACTIONS
from sidecar.gpu.pages.table import Column, Table
from sidecar.gpu.plausible import plausible
from sidecar.gpu.reading import GpuNote, Row, bus_id, row, scaled

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Adapted:
    """What a page says. `claims` are its pods; `named` is whether any row names a pod."""

    rows: list[Row]
    notes: list[GpuNote]
    leaves: list[Leaf]
    claims: list[Claim]
    devices: int
    named: bool


@dataclass(frozen=True, slots=True)
class Context:
    """What a decoder may want beside the value: the page's HELP texts and its samples."""

    helps: Mapping[str, str]
    samples: tuple[ReadSample, ...]


def _reasons(value: float, _: ReadSample, __: Context) -> Iterator[tuple[Labels, float]]:
    for bit, reason in CLOCK_REASONS.items():
        yield (("reason", reason),), float(bool(int(value) & bit))


def _action(value: float, _: ReadSample, __: Context) -> Iterator[tuple[Labels, float]]:
    for i, action in enumerate(RECOVERY_ACTIONS):
        yield (("action", action),), float(i == int(value))


def _share(value: float, sample: ReadSample, context: Context) -> Iterator[tuple[Labels, float]]:
    """A percentage, unless the HELP text says that it isn't; the name alone doesn't tell."""
    text = context.helps.get(sample.name, "").lower()
    is_share = "%" not in text and re.search(r"ratio|fraction|0(\.0)? ?(-|\.\.|to) ?1(\.0)?\b(?!00)", text)
    yield (), value if is_share else value / 100


def _watts(value: float, sample: ReadSample, context: Context) -> Iterator[tuple[Labels, float]]:
    """W or mW, as the limit of the same device says: no board has a limit over 10 kW, or under 10 W."""
    limit = next(
        (
            one.value
            for one in context.samples
            if one.name == "gpu_power_limit_watts" and one.labels == sample.labels
        ),
        0.0,
    )
    if limit >= 10.0:
        yield (), value if limit <= 10_000 else value / 1000


DECODERS: dict[str, Callable[[float, ReadSample, Context], Iterator[tuple[Labels, float]]]] = {
    "reasons": _reasons,
    "action": _action,
    "share": _share,
    "watts": _watts,
}


def _label(sample: ReadSample, names: Iterable[str]) -> str:
    return next((sample.labels[name] for name in names if sample.labels.get(name)), "")


class _Adapter:
    def __init__(self, page: ReadPage, table: Table, helps: Mapping[str, str]) -> None:
        self._table = table
        self._types = page.types
        self._by_name: dict[str, list[ReadSample]] = {}
        for sample in page.samples:
            if isfinite(sample.value) and sample.value not in table.blanks:
                self._by_name.setdefault(sample.name, []).append(sample)
        self._context = Context(helps, tuple(page.samples))

    def leaf(self, sample: ReadSample) -> Leaf:
        table = self._table
        whole = any(sample.labels.get(name, "") in values for name, values in table.whole.items())
        instance = "" if whole else _label(sample, table.instance)
        return Leaf(_label(sample, table.uuid), instance, "", _label(sample, table.index))

    def samples(self) -> Iterator[ReadSample]:
        """Samples of a device that the table knows, or that say what a device is."""
        known = {name for one in self._table.columns for name in one.natives} | {self._table.info}
        for name, samples in self._by_name.items():
            if name in known:
                yield from (sample for sample in samples if self.leaf(sample).gpu_uuid)

    def values(self, keep: Callable[[ReadSample], bool]) -> dict[tuple[str, Leaf, Labels], float]:
        found: dict[tuple[str, Leaf, Labels], float] = {}
        for one in self._table.columns:
            for native in one.natives:
                if one.types and (self._types.get(native) or "untyped") not in one.types:
                    continue
                fresh: dict[tuple[str, Leaf, Labels], float] = {}
                for sample in self._by_name.get(native, ()):
                    if keep(sample) and _fits(one, sample):
                        self._put(one, sample, fresh)
                found = fresh | found
        return found

    def _put(self, one: Column, sample: ReadSample, found: dict[tuple[str, Leaf, Labels], float]) -> None:
        leaf = self.leaf(sample)
        place = Leaf(leaf.gpu_uuid, leaf.gpu_instance if one.leaf else "")
        if not place.gpu_uuid or (not one.zero and sample.value == 0):
            return
        value = scaled(sample.value, one.factor)
        parts = DECODERS[one.decode](value, sample, self._context) if one.decode else (((), value),)
        for labels, part in parts:
            key = one.signal, place, (*one.labels, *labels)
            if key not in found or one.reduce == "max":
                found[key] = max(part, found.get(key, part))
            elif one.reduce == "sum":
                found[key] += part

    def infos(self, leaves: Mapping[Leaf, ReadSample]) -> Iterator[Row]:
        table, told = self._table, set()
        for leaf, sample in leaves.items():
            if leaf.gpu_uuid not in told:
                told.add(leaf.gpu_uuid)
                yield row(
                    "gpu_info",
                    1.0,
                    gpu_uuid=leaf.gpu_uuid,
                    index=leaf.index,
                    name=_label(sample, table.name),
                    vendor=table.vendor,
                    pci_bus_id=bus_id(_label(sample, table.pci)),
                    driver_version=_label(sample, table.driver),
                )
            if leaf.gpu_instance and table.profile:
                yield row(
                    "gpu_mig_info",
                    1.0,
                    gpu_uuid=leaf.gpu_uuid,
                    gpu_instance=leaf.gpu_instance,
                    profile=_label(sample, table.profile),
                )

    def owner(self, sample: ReadSample) -> Owner:
        table = self._table
        return Owner(
            "",
            _label(sample, table.pod),
            _label(sample, table.namespace),
            _label(sample, table.container),
        )

    def unmapped(self) -> list[str]:
        known = {name for one in self._table.columns for name in one.natives}
        known |= {self._table.info, self._table.devices}
        ours = self._table.ours
        return [name for name in self._by_name if ours and name.startswith(ours) and name not in known]

    def devices(self, leaves: Iterable[Leaf]) -> int:
        told = self._by_name.get(self._table.devices, ())
        return int(told[0].value) if told else len({leaf.gpu_uuid for leaf in leaves})


def _fits(one: Column, sample: ReadSample) -> bool:
    return all(sample.labels.get(name, "") in values for name, values in one.where.items())


def adapt(
    page: ReadPage, table: Table, helps: Mapping[str, str], pod: tuple[str, str] | None = None
) -> Adapted:
    """Rows of a page. With `pod` (name, namespace), only the rows of that pod, where the page names pods."""
    adapter = _Adapter(page, table, helps)
    samples = sorted(adapter.samples(), key=lambda one: one.name != table.info)
    leaves: dict[Leaf, ReadSample] = {}
    claims: dict[Claim, None] = {}
    everybody: dict[Leaf, None] = {}
    named = False

    def is_ours(sample: ReadSample) -> bool:
        owner = adapter.owner(sample)
        return pod is None or not named or (owner.pod, owner.namespace) == pod

    named = any(adapter.owner(sample).pod for sample in samples)
    for sample in samples:
        leaf, owner = adapter.leaf(sample), adapter.owner(sample)
        everybody[leaf] = None
        if is_ours(sample):
            leaves.setdefault(leaf, sample)
            if owner.pod:
                claims[Claim(_device(leaf), owner)] = None
    values = adapter.values(is_ours)
    sliced = {(signal, leaf.gpu_uuid) for signal, leaf, _ in values if leaf.gpu_instance}
    rows = list(adapter.infos(leaves))
    for (signal, leaf, labels), value in values.items():
        # The whole GPU's row beside its instances': a sum would count the GPU twice.
        if leaf.gpu_instance or (signal, leaf.gpu_uuid) not in sliced:
            place = {"gpu_uuid": leaf.gpu_uuid, "gpu_instance": leaf.gpu_instance}
            rows.append(row(signal, value, **place, **dict(labels)))
    if table.memory_total:
        rows += _totals(rows)
    kept, notes = plausible(rows)
    unmapped = adapter.unmapped()
    if unmapped:
        notes.append(GpuNote("", "families", "unmapped", ", ".join(unmapped)))
    with_instances = {leaf.gpu_uuid for leaf in leaves if leaf.gpu_instance}
    shown = [leaf for leaf in leaves if leaf.gpu_instance or leaf.gpu_uuid not in with_instances]
    return Adapted(kept, notes, shown, list(claims), adapter.devices(everybody), named)


def _device(leaf: Leaf) -> str:
    return f"MIG-{leaf.gpu_uuid}/{leaf.gpu_instance}/0" if leaf.gpu_instance else leaf.gpu_uuid


def _totals(rows: Iterable[Row]) -> list[Row]:
    """Used + free + reserved, for devices that tell these three and no total."""
    sizes: dict[Labels, dict[str, float]] = {}
    for signal, labels, value in rows:
        if signal.startswith("gpu_memory_") and signal.endswith("_bytes"):
            sizes.setdefault(labels, {})[signal] = value
    names = [f"gpu_memory_{name}_bytes" for name in ("used", "free", "reserved")]
    return [
        ("gpu_memory_total_bytes", labels, sum(found[name] for name in names))
        for labels, found in sizes.items()
        if "gpu_memory_total_bytes" not in found and all(name in found for name in names)
    ]
