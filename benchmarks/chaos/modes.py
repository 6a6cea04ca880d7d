"""The ways in which workers can go about their steps, as settings; and all of them side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_BATCHES: Mapping[str, str] = {}
_ALONE = {"KEEPSTEP_BATCH": "1"}
_INLINE = {"KEEPSTEP_INLINE_SECONDS": "5"}
_STOCK = {"KEEPSTEP_LEAN": "false", "KEEPSTEP_PREPARED_STATEMENTS": "false"}

MODES: Mapping[str, Sequence[Mapping[str, str]]] = {
    "batches": [_BATCHES],
    "alone": [_ALONE],
    "inline": [_INLINE],
    "stock": [_STOCK],
    "mixed": [_BATCHES, _ALONE, _INLINE, _STOCK],
}
"""The settings of the first worker, the second and so on, and over again."""
