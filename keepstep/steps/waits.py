"""A wait as it is stored: all that a sender, or a node without the workflow's code, must know of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from keepstep.steps import state as states
from keepstep.steps.definition import check_name
from keepstep.steps.errors import BadOutcome, BadState
from keepstep.steps.field import why_not, why_not_payload
from keepstep.steps.step import Step, Target
from keepstep.steps.waiting import UNSET, WaitFor, WaitTogether
from keepstep.steps.workflow import Workflow


@dataclass(frozen=True, kw_only=True)
class Wait:
    """One signal that a case waits for.

    timeout, remind_every: seconds. schema: the payload's JSON Schema. default: JSON text of the payload that the
    deadline delivers. digest: of what is asked, so that a decision about something else can be refused.
    """

    name: str
    into: str | None
    then: Target | None
    schema: dict[str, Any] | None
    prompt: Any
    timeout: float | None
    on_timeout: Target | None
    default: str | None
    remind_every: float | None
    need_all: bool
    stream: bool
    approvers: int
    digest: str


def waits_of(workflow: Workflow, step: Step, outcome: WaitFor | WaitTogether) -> tuple[Wait, ...]:
    """The waits that an outcome opens. Raises BadState, BadOutcome, UnknownStep, DefinitionError for what can't be."""
    if isinstance(outcome, WaitFor):
        return (_wait(workflow, step, outcome, need_all=False),)
    return tuple(_wait(workflow, step, wait, need_all=outcome.need_all) for wait in outcome.waits)


def _wait(workflow: Workflow, step: Step, asked: WaitFor, *, need_all: bool) -> Wait:
    check_name("signal", asked.name, "wait_for")
    if asked.into is not None and asked.into not in workflow.state.model_fields:
        raise BadState(
            f"wait_for({asked.name!r}, into={asked.into!r}): {workflow.state.__name__} has no such field",
            path=states.pointer(asked.into),
        )
    states.refuse_what_json_lacks(asked.prompt, "prompt")
    if asked.remind_every is not None and "remind" not in workflow.hooks:
        raise BadOutcome(
            f"wait_for({asked.name!r}, remind_every=...): nobody would be reminded, because {workflow.name!r} has no "
            'hook for it. Declare one with @workflow.on("remind").'
        )
    schema = _schema(workflow, asked)
    expired = None if asked.on_timeout is None else workflow.follow(step, asked.on_timeout)
    return Wait(
        name=asked.name,
        into=asked.into,
        then=_then(workflow, step, asked),
        schema=schema,
        prompt=asked.prompt,
        timeout=asked.timeout,
        on_timeout=None if expired is None else expired.target,
        default=_default(workflow, asked),
        remind_every=asked.remind_every,
        need_all=need_all,
        stream=asked.stream,
        approvers=asked.approvers,
        digest=_digest(asked.name, asked.prompt, schema),
    )


def _then(workflow: Workflow, step: Step, asked: WaitFor) -> Target | None:
    if asked.then is not None:
        return workflow.follow(step, asked.then).target
    following = workflow.following(step)
    return None if following is None else following.target


def _default(workflow: Workflow, asked: WaitFor) -> str | None:
    if asked.default is UNSET:
        return None
    states.refuse_what_json_lacks(asked.default, f"wait_for({asked.name!r}, default=...)")
    reason = None if asked.payload is None else why_not_payload(asked.payload, asked.default)
    if reason is None and asked.into is not None:
        reason = why_not(workflow.state, asked.into, asked.default)
    if reason:
        raise BadState(f"wait_for({asked.name!r}): its default doesn't fit: {reason}", path=f"/{asked.into or ''}")
    return json.dumps(asked.default, ensure_ascii=False)


def _schema(workflow: Workflow, asked: WaitFor) -> dict[str, Any] | None:
    """Of the payload's model, the choices, or the field of the state that takes it; by field names, as it is stored."""
    if asked.payload is not None:
        if not (isinstance(asked.payload, type) and issubclass(asked.payload, BaseModel)):
            raise BadOutcome(
                f"wait_for({asked.name!r}, payload={asked.payload!r}): a payload is described by a pydantic model"
            )
        schema = asked.payload.model_json_schema(by_alias=False)
    elif asked.choices is not None:
        schema = {"enum": list(asked.choices)}
    elif asked.into is not None:
        whole = workflow.state.model_json_schema(by_alias=False)
        schema = {**whole["properties"][asked.into], "$defs": whole.get("$defs", {})}
    else:
        return None
    states.refuse_what_json_lacks(schema, f"the schema of {asked.name}")
    return schema


def _digest(name: str, prompt: Any, schema: dict[str, Any] | None) -> str:
    """Twelve hexadecimal digits: enough to tell one question of a case from another, short enough to be typed."""
    asked = json.dumps([name, prompt, schema], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(asked.encode()).hexdigest()[:12]
