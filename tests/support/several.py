"""A workflow whose first step asks what the test wants asked, and the steps that an answer may lead to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, Field

from keepstep import Approval, Workflow, wait_for
from keepstep.checkpoint.ring import Ring
from tests.support.hand import Hand

YES, NO = {"approved": True}, {"approved": False}


class Verdict(BaseModel):
    """A payload whose field has another name outside."""

    is_ok: bool = Field(alias="isOk")


class State(BaseModel):
    a: Any = None
    b: Any = None
    approval: Approval | None = None
    verdict: Verdict | None = None


several = Workflow("several", state=State)
for _name in ("ask", "after_a", "after_b", "more", "end"):
    several.step(name=_name)(lambda state, call: None)

Ask = Callable[..., Ring]


def approval(**options: Any) -> Any:
    """Ask for an approval."""
    return wait_for("approval", into="approval", payload=Approval, **options)


def asking(hand: Hand) -> Ask:
    """Start a case and let its first step return the outcome."""

    def ask(outcome: Any, thread_id: str = "A") -> Ring:
        ring = hand.start(thread_id, several)
        hand.step(ring, 0, outcome)
        return ring

    return ask
