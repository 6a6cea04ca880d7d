"""Named points, one at each write of the engine, at which a test may kill or halt this process.

In production nothing is armed, and `reach` does nothing. A test arms a point by a file in the folder that
KEEPSTEP_FAILPOINTS names, `point@case@seq`, whose text says what happens there: "kill" (SIGKILL) or "halt" (until the
file is gone). Whoever arrives first renames the file by appending its pid, so each is reached once.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from keepstep.config.settings import failpoints

POINTS = {
    "claiming": "a message has arrived, nothing is written",
    "claimed": "the lease is taken, the step has not begun",
    "intended": "a recorded call is written down, and not made yet",
    "answered": "a recorded call has returned, its result is not written",
    "recorded": "its result is written",
    "called": "the step has returned, nothing is written",
    "written": "a transactional step's checkpoint is written, its transaction is open",
    "committed": "the checkpoint is committed, nobody is told",
    "ringing": "a message is about to be sent: after a commit, a delivery, a recovery, a timer",
    "published": "the message is sent",
    "born": "cases of branches are made, nobody is told of them; seq is that of the checkpoint that fanned out",
    "joined": "all branches have ended and the case has gone on, or failed; nobody is told",
}


def _strike(point: str, case: UUID, seq: int) -> None:
    assert _folder is not None  # or _nothing is called
    marker = _folder / f"{point}@{case}@{seq}"
    mine = marker.with_name(f"{marker.name}@{os.getpid()}")
    try:
        marker.rename(mine)
        action = mine.read_text()
    except FileNotFoundError:  # nobody wants it, or it was released at once
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    while mine.exists():
        time.sleep(0.005)


def _nothing(_point: str, _case: UUID, _seq: int) -> None:
    pass


_given = failpoints()
_folder = Path(_given) if _given else None
reach: Callable[[str, UUID, int], None] = _nothing if _folder is None else _strike
"""`reach(point, case, seq)`: die or stand still here, if a test wants it. seq: where the step starts from."""
