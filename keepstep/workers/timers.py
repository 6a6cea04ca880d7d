"""The timers of a main process: those of steps that are over are forgotten, not kept until their time."""

from __future__ import annotations

import heapq
from typing import Any

TIDY = 5.0
"""Seconds between two looks. A busy worker gains a few thousand timers meanwhile."""


def forget_cancelled(timer: Any) -> None:
    """Drop kombu's cancelled timers. It keeps them until they would have gone off: the limit of a step that took a
    millisecond for its whole timeout, a hundred megabytes of them in a busy worker of steps that may take minutes.

    To be called in the event loop's own thread.
    """
    queue = timer._queue
    left = [one for one in queue if not one.entry.canceled]
    if len(left) < len(queue):
        queue[:] = left
        heapq.heapify(queue)
