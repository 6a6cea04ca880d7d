"""Chance that can be repeated: made of the run's seed and of names, the same in every process."""

from __future__ import annotations

from random import Random


def dice(*names: object) -> Random:
    """Dice of one's own for whatever the names say, so that nobody's throws depend on who threw before."""
    return Random("/".join(map(str, names)))
