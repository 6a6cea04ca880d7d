"""What became of a branch, where errors are collected beside results."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pydantic import BaseModel

T = TypeVar("T")

UNFIT = "the branches' results don't fit"
"""Why a case is held whose field can't take what its branches came to."""


class BranchError(BaseModel):
    """Why a branch has no result. status: "failed" or "cancelled". thread_id: its own, empty if it never began."""

    type: str
    message: str = ""
    status: str = "failed"
    workflow: str = ""
    thread_id: str = ""


class BranchResult(BaseModel, Generic[T]):
    """One branch of a fan-out with `on_error="collect"`: its result, or the error that it ended with."""

    result: T | None = None
    error: BranchError | None = None

    @property
    def ok(self) -> bool:
        """Whether it has completed."""
        return self.error is None


def collected(result: Any, error: dict[str, Any] | None) -> dict[str, Any]:
    """A `BranchResult` as JSON."""
    return {"result": result, "error": error}
