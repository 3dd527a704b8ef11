"""Whose GPU is it? What a sidecar can know without taking a GPU. Unknown is absent: never a guess."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sidecar.gpu.reading import Row, row


@dataclass(frozen=True, slots=True)
class Leaf:
    """A GPU, or one instance of a GPU that is sliced. `index` is the GPU's, as its source counts."""

    gpu_uuid: str
    gpu_instance: str = ""
    mig_uuid: str = ""
    index: str = ""

    def is_called(self, device: str) -> bool:
        """Whether a device id of the kubelet or of an environment variable means this leaf.

        `GPU-uuid`, `MIG-uuid`, each with `::n` when it is shared in time; `MIG-GPU-uuid/instance/compute`
        before R470; `nvidia0`, `nvidia0/gi3`, `nvidia0/vgpu1` on GKE.
        """
        device = device.partition("::")[0]
        if device in (self.gpu_uuid, self.mig_uuid):
            return bool(device)
        name, _, rest = device.partition("/")
        part = rest.partition("/")[0]
        if name == f"MIG-{self.gpu_uuid}":
            return part == self.gpu_instance
        if self.index and name == f"nvidia{self.index}":
            return not part.startswith("gi") or part == f"gi{self.gpu_instance}"
        return False


@dataclass(frozen=True, slots=True)
class Owner:
    target: str = ""
    pod: str = ""
    namespace: str = ""
    container: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """What the configuration and the own environment say.

    `devices` is `auto`, `all`, `env` or device ids. `targets` are the configured ones: only when there is one
    can a GPU be given to it without more being said. `owners` names device ids by target, `pods` targets by
    `namespace/pod`. `visible` is this container's own NVIDIA_VISIBLE_DEVICES, `pod` and `namespace` are its
    own (downward API).
    """

    devices: str | tuple[str, ...] = "auto"
    targets: tuple[str, ...] = ()
    owners: Mapping[str, Sequence[str]] = field(default_factory=dict)
    pods: Mapping[str, str] = field(default_factory=dict)
    visible: str = ""
    pod: str = ""
    namespace: str = ""

    @property
    def sole_target(self) -> str:
        return self.targets[0] if len(self.targets) == 1 else ""

    def with_target(self, owner: Owner) -> Owner:
        """The owner with the target that its pod is, where that is known."""
        target = self.pods.get(f"{owner.namespace}/{owner.pod}", "")
        if not target and owner.pod and (owner.pod, owner.namespace) == (self.pod, self.namespace):
            target = self.sole_target
        elif not target and owner.pod in self.targets:
            target = owner.pod
        return replace(owner, target=target)


@dataclass(frozen=True, slots=True)
class Claim:
    """A device that somebody says is somebody's: a row of a page, an entry of the kubelet's list."""

    device: str
    owner: Owner


@dataclass(frozen=True, slots=True)
class Allocation:
    """`pairs` say who has what, `only` which GPUs to show (None: all), `note` why nothing is known."""

    pairs: tuple[tuple[Leaf, Owner], ...] = ()
    only: frozenset[str] | None = None
    note: str = ""


def device_ids(text: str) -> tuple[str, ...]:
    """Device ids in NVIDIA_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES; none when it is `all`, `void` or numbers.

    Numbers are in another container's order, so they say nothing here.
    """
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    return parts if parts and all(part.startswith(("GPU-", "MIG-")) for part in parts) else ()


def allocate(
    leaves: Sequence[Leaf], rule: Rule, *, claims: Iterable[Claim] = (), engine: Sequence[str] = ()
) -> Allocation:
    """Who has which leaf. `claims` are the kubelet's or a page's, `engine` is of the engine's environment."""
    if rule.owners:
        told = [
            (leaf, Owner(target))
            for target, devices in rule.owners.items()
            for leaf in _called(leaves, devices)
        ]
        return Allocation(tuple(told))
    only = None
    if isinstance(rule.devices, tuple):
        named = _called(leaves, rule.devices)
        only = frozenset(leaf.gpu_uuid for leaf in named)
        if not named:
            return Allocation((), only, "none of the GPUs that gpu.devices names is visible")
        if rule.sole_target:
            return Allocation(tuple((leaf, Owner(rule.sole_target)) for leaf in named), only)
    claimed = [
        (leaf, rule.with_target(claim.owner))
        for claim in claims
        for leaf in leaves
        if leaf.is_called(claim.device)
    ]
    if claimed:
        return Allocation(tuple(dict.fromkeys(claimed)), only)
    if not rule.sole_target:
        why = "several targets: say which has which devices, or give the kubelet's socket"
        return Allocation((), only, why if rule.targets else "no target is configured")
    mine = Owner(rule.sole_target, rule.pod, rule.namespace)
    if rule.devices == "all" or (rule.devices == "auto" and (device_ids(rule.visible) or len(leaves) == 1)):
        return Allocation(tuple((leaf, mine) for leaf in leaves))
    theirs = _called(leaves, engine)
    if theirs:
        return Allocation(tuple((leaf, mine) for leaf in theirs))
    return Allocation(
        (),
        None,
        f"{len(leaves)} GPUs are visible and nothing says which of them the engine uses: set gpu.devices, or "
        "share the process namespace",
    )


def _called(leaves: Sequence[Leaf], devices: Sequence[str]) -> list[Leaf]:
    return [leaf for leaf in leaves if any(leaf.is_called(device) for device in devices)]


def allocation_rows(allocation: Allocation) -> list[Row]:
    """`gpu_allocation_info`, a row for each pair."""
    return [
        row(
            "gpu_allocation_info",
            1.0,
            gpu_uuid=leaf.gpu_uuid,
            gpu_instance=leaf.gpu_instance,
            target=owner.target,
            pod=owner.pod,
            namespace=owner.namespace,
            container=owner.container,
        )
        for leaf, owner in allocation.pairs
    ]
