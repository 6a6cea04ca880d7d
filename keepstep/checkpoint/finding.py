"""One thing that stands in the way of going on with a case, and how some of them are found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from keepstep.steps.chunks import Fetch
from keepstep.steps.field import why_not
from keepstep.steps.state import JSON
from keepstep.steps.upcasts import why_no_payload
from keepstep.steps.workflow import Workflow


class Verdict(StrEnum):
    """What becomes of the case: an operator is asked, it stands still, or something is worth a look."""

    HELD = "held"
    STUCK = "stuck"
    WARNED = "warned"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing in the way. why: alike for all cases that have this trouble. detail: of this one. path: in its JSON."""

    verdict: Verdict
    why: str
    detail: str = ""
    path: str = ""


def of_a_target(workflow: Workflow, name: str, there: str) -> Iterator[Finding]:
    """A step that the case comes to. there: how."""
    if name not in workflow.step_names:
        known = f"this code has {', '.join(workflow.steps)}: say aliases= if it has another name now, removed= if none"
        why = f"{there} the step {name}, which this code doesn't have"
        yield Finding(verdict=Verdict.HELD, why=why, detail=known)


def refused(workflow: Workflow, version: int, stored: JSON, field: str, payload: Any, fetch: Fetch) -> str | None:
    """Why a state of this version can't have the payload in the field; None if it can. fetch: reads its logs."""
    if version < workflow.schema_version:
        return why_no_payload(workflow, stored, version, field, payload, fetch)
    if workflow.state.model_config.get("extra") == "allow" and field not in workflow.state.model_fields:
        return None
    return why_not(workflow.state, field, payload)


def would_refuse(reason: str) -> bool:
    """Whether the model itself refuses, and not a validator of the user's own, which may take other values."""
    return not any(words in reason for words in ("Value error", "Assertion failed", "validator raises"))
