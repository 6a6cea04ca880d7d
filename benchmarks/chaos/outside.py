"""The outside world: it makes an effect each time it is asked, whatever the key, and forgets none.

A file for each case, in a folder that belongs to no server, so that it outlives whatever is killed. A line is one write
in append mode, so lines of several processes don't mix; it begins with the line break, so one that a kill has torn
spoils no other. A torn line is an effect that wasn't made.
"""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from random import Random

FOLDER_VARIABLE = "KEEPSTEP_CHAOS_OUTSIDE"
SLOWNESS_VARIABLE = "KEEPSTEP_CHAOS_SLOWNESS"
_END = "."


@dataclass(frozen=True, kw_only=True)
class Line:
    """What the world saw. kind: "begun" or "made". pause: seconds that the call went on sleeping after it."""

    kind: str
    what: str
    key: str
    receipt: str
    pid: int
    at: float
    pause: float


def call(case: str, what: str, key: str, chance: Random) -> str:
    """Make the effect, somewhere in the middle of the time that the call takes; its receipt, new at each call."""
    before, after = duration(chance), duration(chance)
    receipt = uuid.uuid4().hex
    begin(case, what, key, before)
    _write(case, "made", what, key, receipt, after)
    time.sleep(after)
    return receipt


def begin(case: str, what: str, key: str, pause: float) -> None:
    """Note that a call has come in, and take that long."""
    _write(case, "begun", what, key, "-", pause)
    time.sleep(pause)


def duration(chance: Random) -> float:
    """Seconds: mostly a few hundredths, one in a hundred takes long; times the slowness of this run."""
    seconds = chance.uniform(0.5, 1.0) if chance.random() < 0.01 else min(0.2, chance.expovariate(1 / 0.03))
    return seconds * float(os.environ.get(SLOWNESS_VARIABLE, "1"))


def receipt_of(case: str, key: str) -> str | None:
    """The receipt of the effect that was made under this key; None if there is none: what `verify` and people ask."""
    return next((line.receipt for line in lines(case) if line.kind == "made" and line.key == key), None)


def lines(case: str) -> list[Line]:
    """All that the world saw of a case, in order."""
    try:
        text = _file(case).read_text()
    except FileNotFoundError:
        return []
    rows = [row.split("\t") for row in text.split("\n")]
    return [
        Line(kind=r[0], what=r[1], key=r[2], receipt=r[3], pid=int(r[4]), at=float(r[5]), pause=float(r[6]))
        for r in rows
        if len(r) == 8 and r[7] == _END
    ]


def _write(case: str, kind: str, what: str, key: str, receipt: str, pause: float) -> None:
    line = f"\n{kind}\t{what}\t{key}\t{receipt}\t{os.getpid()}\t{time.time():.4f}\t{pause:.4f}\t{_END}"
    descriptor = os.open(_file(case), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def _file(case: str) -> Path:
    return Path(os.environ[FOLDER_VARIABLE]) / case
