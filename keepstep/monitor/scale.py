"""An axis of time: where on a bar an instant lies. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from datetime import datetime

WIDTH = 1000.0
"""Of a bar, in its own units."""

_SQUEEZED = 0.3
"""The power to which the stretches between two events are raised: three weeks and 30 ms both stay visible."""

_UNEVEN = 40.0
"""An axis is squeezed unless somebody asks otherwise when its longest stretch is so many times its median one."""


class Scale:
    """From instants to 0 ... WIDTH.

    squeezed: long stretches in which nothing happens are drawn shorter; None: if they would hide the rest.
    """

    def __init__(self, instants: Iterable[datetime], *, squeezed: bool | None = None):
        self.instants = sorted(set(instants))
        spans = [(b - a).total_seconds() for a, b in zip(self.instants, self.instants[1:], strict=False)]
        median = sorted(spans)[len(spans) // 2] if spans else 0.0
        self.squeezed = (len(spans) > 3 and max(spans) > _UNEVEN * max(median, 1e-3)) if squeezed is None else squeezed
        weights = [span**_SQUEEZED if self.squeezed else span for span in spans]
        total, at = sum(weights) or 1.0, 0.0
        self._places = [0.0]
        for weight in weights:
            at += weight
            self._places.append(WIDTH * at / total)

    def __call__(self, instant: datetime) -> float:
        """Where it lies; what is outside lies at the edge."""
        if not self.instants or instant <= self.instants[0]:
            return 0.0
        index = bisect_right(self.instants, instant) - 1
        if index + 1 >= len(self.instants):
            return WIDTH
        span = (self.instants[index + 1] - self.instants[index]).total_seconds()
        part = (instant - self.instants[index]).total_seconds() / span
        return self._places[index] + part * (self._places[index + 1] - self._places[index])
