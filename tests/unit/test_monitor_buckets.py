"""Counters and histograms: their sums are right, and their labels can't grow without bound."""

from __future__ import annotations

from keepstep.monitor.buckets import MOST_LABELS, OTHER, Buckets, Counts


def test_labels_beyond_the_bound_are_counted_together() -> None:
    counts = Counts(("queue",))
    for number in range(MOST_LABELS + 100):
        counts.add((f"q{number}",), 1)
    counts.add(("q0",), 1)
    assert len(counts.by) == MOST_LABELS + 1
    assert counts.by[(OTHER,)] == 100
    assert counts.by[("q0",)] == 2
    buckets = Buckets(("queue",), (1.0,))
    for number in range(MOST_LABELS + 100):
        buckets.add((f"q{number}",), 0, 1, 0.5)
    assert sum(counts[0] for counts in buckets.by.values()) == MOST_LABELS + 100
    assert len(buckets.by) == MOST_LABELS + 1


def test_buckets_are_told_as_prometheus_wants_them() -> None:
    buckets = Buckets(("queue",), (0.1, 1.0))
    buckets.add(("q",), 0, 2, 0.1)
    buckets.add(("q",), 2, 1, 9.0)
    buckets.add(("q",), 7, 1, 9.0)
    assert list(buckets.cumulative()) == [(("q",), [("0.1", 2), ("1", 2), ("+Inf", 4)], 18.1)]
