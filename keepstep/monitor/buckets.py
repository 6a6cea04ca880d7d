"""Counters and histograms that are filled from counts of what happened since the last look. Bounded in labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

MOST_LABELS = 500
"""Combinations of labels that one metric keeps; what comes beyond is counted together, as OTHER."""
OTHER = "(other)"

Labels = tuple[str, ...]


@dataclass
class Counts:
    """A counter by labels."""

    names: Sequence[str]
    by: dict[Labels, float] = field(default_factory=dict)

    def add(self, labels: Labels, number: float) -> None:
        """Add to one."""
        key = _bounded(labels, self.by)
        self.by[key] = self.by.get(key, 0.0) + number


@dataclass
class Buckets:
    """A histogram by labels. bounds: the upper ends of its buckets but the last, which has none."""

    names: Sequence[str]
    bounds: Sequence[float]
    by: dict[Labels, list[float]] = field(default_factory=dict)
    sums: dict[Labels, float] = field(default_factory=dict)

    def add(self, labels: Labels, bucket: int, number: float, total: float) -> None:
        """Add `number` values, `total` together, that lie in bucket 0 (up to the first bound) ... len(bounds)."""
        key = _bounded(labels, self.by)
        counts = self.by.setdefault(key, [0.0] * (len(self.bounds) + 1))
        counts[min(max(bucket, 0), len(self.bounds))] += number
        self.sums[key] = self.sums.get(key, 0.0) + total

    def cumulative(self) -> Iterator[tuple[Labels, list[tuple[str, float]], float]]:
        """As Prometheus has it: for each labels, (upper end, values up to it), and the sum."""
        ends = [*(f"{bound:g}" for bound in self.bounds), "+Inf"]
        for labels, counts in self.by.items():
            so_far, rows = 0.0, []
            for end, count in zip(ends, counts, strict=True):
                so_far += count
                rows.append((end, so_far))
            yield labels, rows, self.sums[labels]


def _bounded(labels: Labels, known: dict[Labels, object] | dict[Labels, float] | dict[Labels, list[float]]) -> Labels:
    return labels if labels in known or len(known) < MOST_LABELS else tuple(OTHER for _ in labels)
