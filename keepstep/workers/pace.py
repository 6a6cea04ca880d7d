"""How long each kind of step takes, as this worker has measured it, and hence which ones are quick."""

from __future__ import annotations

QUICK = 0.01
"""Seconds. What takes longer on the average is worth a message of its own."""
KNOWN = 1
"""Measurements from which on an average is believed."""
_NEWEST = 0.2
"""The weight of the newest measurement in the average."""


class Pace:
    """Moving averages by the name of the step."""

    def __init__(self) -> None:
        self._average: dict[str, tuple[int, float]] = {}

    def note(self, name: str, seconds: float) -> None:
        """A step has taken so long."""
        count, average = self._average.get(name, (0, seconds))
        self._average[name] = count + 1, average + _NEWEST * (seconds - average)

    def expected(self, name: str) -> float | None:
        """Seconds that it will take; None if that isn't known yet."""
        count, average = self._average.get(name, (0, 0.0))
        return average if count >= KNOWN else None
