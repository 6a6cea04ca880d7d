"""The payload of the commonest signal: a person's verdict."""

from __future__ import annotations

from pydantic import BaseModel


class Approval(BaseModel):
    """A verdict, who gave it, and why."""

    approved: bool
    actor: str | None = None
    note: str | None = None
