"""How one exporter's families become the schema's signals, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MIB = 1048576.0


@dataclass(frozen=True, slots=True)
class Column:
    """One of our series, and where an exporter has it.

    Of `natives` the first that a device has counts. `where` says which values its labels must have (an empty
    one: or none). `leaf` values are measured on a GPU instance; all others belong to the board, and count
    once a GPU however many instances or pods repeat them. Several rows of one device are the same row again
    (`reduce` first), or parts of a whole (sum), or alternatives (max). `zero` False: 0 is not available.
    `types` are the declared types to accept, empty for any: the same name is a rate in one csv and a total in
    another. `decode` names one of `adapt.DECODERS`, for values that aren't one number.
    """

    signal: str
    natives: tuple[str, ...]
    factor: float = 1.0
    labels: tuple[tuple[str, str], ...] = ()
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    leaf: bool = False
    reduce: str = "first"
    zero: bool = True
    types: tuple[str, ...] = ()
    decode: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """One exporter. `uuid`, `index`, `instance`, … are label names, the preferred spelling first."""

    source: str
    vendor: str
    columns: tuple[Column, ...]
    uuid: tuple[str, ...]
    index: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    driver: tuple[str, ...] = ()
    pci: tuple[str, ...] = ()
    serial: tuple[str, ...] = ()
    instance: tuple[str, ...] = ()
    #: Label → value of a GPU that isn't sliced, so that its instance label means nothing.
    whole: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    profile: tuple[str, ...] = ()
    pod: tuple[str, ...] = ("exported_pod", "pod", "pod_name")
    namespace: tuple[str, ...] = ("exported_namespace", "namespace", "pod_namespace")
    container: tuple[str, ...] = ("exported_container", "container", "container_name")
    info: str = ""  # family whose labels say what a GPU is
    devices: str = ""  # family that says how many GPUs there are
    blanks: frozenset[float] = frozenset()
    ours: tuple[str, ...] = ()  # prefixes of families of this exporter, for what isn't mapped
    detect: tuple[str, ...] = ()  # families, or prefixes, that only this exporter has
    memory_total: bool = False  # the total is the sum of used, free and reserved when it is not told


def column(signal: str, *natives: str, factor: float = 1.0, **more: object) -> Column:
    """A column with its labels as keywords ending in `_`: `sensor_="memory"`."""
    labels = tuple((name[:-1], str(value)) for name, value in more.items() if name.endswith("_"))
    rest = {name: value for name, value in more.items() if not name.endswith("_")}
    return Column(signal, natives, factor, labels, **rest)  # type: ignore[arg-type]
