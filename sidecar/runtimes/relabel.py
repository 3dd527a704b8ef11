"""A page's series under other labels, where native labels don't mean what they say."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from sidecar.exposition import Sample, Shape

#: In the place of a sample that must not be read: it keeps the slot.
NOTHING = Sample("", (), "", "")


class Relabelling:
    """Keeps the relabelled shape for as long as neither the page's shape nor the `basis` changes.

    A new basis (what is known of the models, say) makes a new shape, so that everything is bound anew.
    """

    def __init__(self) -> None:
        self._of: Shape | None = None
        self._basis: Hashable = None
        self._shape = Shape((), {}, ())

    def shape(self, of: Shape, basis: Hashable, relabel: Callable[[Sample], Sample]) -> Shape:
        if of is not self._of or basis != self._basis:
            bad_lines = of.bad_lines if of is not self._of else ()  # already counted
            self._shape = Shape(tuple(map(relabel, of.samples)), of.families, bad_lines)
            self._of, self._basis = of, basis
        return self._shape


def with_labels(sample: Sample, **labels: str) -> Sample:
    """The sample with labels set, or taken away where the new value is empty."""
    kept = {key: value for key, value in sample.labels if key not in labels}
    new = kept | {key: value for key, value in labels.items() if value}
    return Sample(sample.name, tuple(sorted(new.items())), sample.family, sample.type)
