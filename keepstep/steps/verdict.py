"""What a step's `verify` may say of a call whose outcome nobody knows: Done, NotDone, or Unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from keepstep.steps.errors import NotDone


@dataclass(frozen=True)
class Done:
    """The call took effect. result: whatever the step would have returned: changes, a state, an outcome."""

    result: Any = None


class Unknown:
    """It can't be told whether the call took effect; a person is asked."""


Verdict = Done | NotDone | Unknown | type[NotDone] | type[Unknown] | type[Done]
"""`NotDone` and `Unknown` may be returned as they are, or raised (NotDone) as an exception."""
