"""The payload of the commonest signal: a person's verdict. And when the verdicts of several people agree."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from keepstep.steps.sameness import same


class Approval(BaseModel):
    """A verdict, who gave it, and why."""

    approved: bool
    actor: str | None = None
    note: str | None = None


def refuses(payload: Any) -> bool:
    """Whether the payload says no: one of several approvers who does decides alone."""
    return isinstance(payload, dict) and payload.get("approved") is False


def agree(one: Any, other: Any) -> bool:
    """Whether two people say the same: payloads that differ only in `actor` and `note`, which are each one's own."""
    return same(_said(one), _said(other))


def _said(payload: Any) -> Any:
    if not isinstance(payload, dict):
        return payload
    return {name: value for name, value in payload.items() if name not in ("actor", "note")}
