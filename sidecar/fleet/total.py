"""A sum over replicas of which some don't answer."""

from __future__ import annotations


def scaled_up(total: float, ready: int, answering: int) -> float:
    """What `answering` replicas (1 or more) add up to, for all that are `ready`.

    Leaving the others out would scale a fleet in because it can't be seen. Never less than `total`.
    """
    return total * max(ready, answering) / answering
