"""Could this code go on with that case? Pure: from a case as it is stored to what would become of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from keepstep.checkpoint import codec
from keepstep.checkpoint.answers import example
from keepstep.checkpoint.compatible_fans import of_a_fan
from keepstep.checkpoint.finding import Finding, Verdict, of_a_target, refused, would_refuse
from keepstep.checkpoint.inflight import Stored
from keepstep.checkpoint.payloads import misfit
from keepstep.steps import state as states
from keepstep.steps.errors import BadState, LogDamaged, UpcastFailed
from keepstep.steps.log import loading
from keepstep.steps.secret import Cover
from keepstep.steps.state import JSON
from keepstep.steps.upcasts import load
from keepstep.steps.workflow import Workflow


def findings(
    workflow: Workflow | None, case: Stored, queues: Collection[str], find: Callable[[str], Workflow | None]
) -> list[Finding]:
    """What stands in the way of going on, with the code at hand; nothing if it would.

    queues: those that it reads. find: its workflows by name. Of a case that is held already all is a warning: it stands
    still whatever is deployed.
    """
    found = _findings(workflow, case, queues, find)
    secrets = (*case.secrets, *(workflow.secrets if workflow is not None else ()))
    if found and secrets:
        cover = Cover.of(secrets, case.state)
        found = [replace(one, detail=cover.text(one.detail)) for one in found]
    return [replace(one, verdict=Verdict.WARNED) for one in found] if case.status == "held" else found


def _findings(
    workflow: Workflow | None, case: Stored, queues: Collection[str], find: Callable[[str], Workflow | None]
) -> list[Finding]:
    if workflow is None:
        return [Finding(verdict=Verdict.STUCK, why="its workflow isn't loaded")]
    if case.version > workflow.schema_version:
        why = f"its state has version {case.version}, this code knows {workflow.schema_version}"
        return [Finding(verdict=Verdict.STUCK, why=why)]
    if case.state is None:
        why = f"its checkpoints are damaged (version {case.version})"
        return [Finding(verdict=Verdict.HELD, why=why, detail=case.damage or "")]
    return [
        *_of_the_state(workflow, case, case.state),
        *_of_the_step(workflow, case, queues),
        *(found for wait in case.waits for found in _of_a_wait(workflow, case, case.state, wait)),
        *(found for signal in case.signals for found in _of_a_signal(workflow, signal)),
        *(() if case.fan is None else of_a_fan(workflow, case, case.state, case.fan, find)),
    ]


# --------------------------------------------------------------------------------------------------------- the state
def _of_the_state(workflow: Workflow, case: Stored, stored: JSON) -> Iterator[Finding]:
    try:
        for step in _next_steps(case):
            before, model, _ = load(workflow, stored, case.version, step=step, fetch=case.fetch)
            with loading(case.fetch):
                again = workflow.upcasts.state(stored, case.version, step)
        kept = states.store(model, case.fetch).state
        states.read_logs(model)
    except LogDamaged as error:
        yield Finding(verdict=Verdict.HELD, why="its checkpoints are damaged", detail=str(error))
        return
    except BadState as error:
        why = f"its state can't be loaded (version {case.version} to {workflow.schema_version})"
        yield Finding(verdict=Verdict.HELD, why=why, detail=str(error), path=error.path)
        return
    if codec.encode(again) != codec.encode(before):
        why = f"an upcaster from version {case.version} on says something else each time: it must be a pure function"
        yield Finding(verdict=Verdict.WARNED, why=why)
    lost = sorted({_general(path) for path in unknown(before, kept)})
    if lost:
        why = f"stored fields that {workflow.state.__name__} doesn't have would be lost: {', '.join(lost)}"
        yield Finding(verdict=Verdict.WARNED, why=why, path=lost[0])


def _next_steps(case: Stored) -> list[str | None]:
    """Where it may go on; [None]: nowhere, it only has to be loaded."""
    if case.status != "waiting":
        return [case.step]
    ways = [wait[way] for wait in case.waits for way in ("then", "on_timeout")]
    ways += [] if case.fan is None else [case.fan.then]
    return [way["step"] for way in ways if way is not None] or [None]


def unknown(stored: Any, kept: Any) -> Iterator[str]:
    """The paths of what is stored and would not be written again."""
    if isinstance(stored, Mapping) and isinstance(kept, Mapping):
        for name, value in stored.items():
            if name not in kept:
                yield states.pointer(name)
            else:
                yield from (states.pointer(name) + path for path in unknown(value, kept[name]))
    elif isinstance(stored, list) and isinstance(kept, list):
        for index, (one, other) in enumerate(zip(stored, kept, strict=False)):
            yield from (states.pointer(index) + path for path in unknown(one, other))


def _general(path: str) -> str:
    """The same path for all items of a list."""
    return "/".join("*" if part.isdigit() else part for part in path.split("/"))


# ---------------------------------------------------------------------------------------------------------- the step
def _of_the_step(workflow: Workflow, case: Stored, queues: Collection[str]) -> Iterator[Finding]:
    if case.status == "waiting":  # what comes next is in its waits
        return
    yield from of_a_target(workflow, case.step, "it stands at")
    if case.step in workflow.removed and case.in_doubt:
        why = f"its step {case.step} was removed, and a call of it is in doubt"
        yield Finding(verdict=Verdict.HELD, why=why)
    step = workflow.find(case.step)
    if step is not None and case.in_doubt and step.verify is None:
        why = f"a call of {case.step} is in doubt, and this code has no verify for it"
        yield Finding(verdict=Verdict.HELD, why=why)
    if not case.is_pinned and case.queue not in queues and case.status in ("queued", "sleeping", "running"):
        why = f"it waits in the queue {case.queue}, which no step of this code uses: have a worker read it (-Q)"
        yield Finding(verdict=Verdict.WARNED, why=why)


# ------------------------------------------------------------------------------------------------ waits and signals
def _of_a_wait(workflow: Workflow, case: Stored, stored: JSON, wait: Mapping[str, Any]) -> Iterator[Finding]:
    name = wait["name"]
    for way in ("then", "on_timeout"):
        if wait[way] is not None:
            yield from of_a_target(workflow, wait[way]["step"], f"its wait for {name} leads to")
    field = wait["into"]
    if field is None:
        return
    for payload in _payloads(wait):
        reason = refused(workflow, case.version, stored, field, payload, case.fetch)
        if reason is not None:
            why = f"what its wait for {name} asks for doesn't fit {workflow.state.__name__}{states.pointer(field)}"
            # a validator of the user's own may refuse our small example, and take what people say
            verdict = Verdict.STUCK if would_refuse(reason) else Verdict.WARNED
            yield Finding(verdict=verdict, why=why, detail=reason, path=states.pointer(field))
            return


def _payloads(wait: Mapping[str, Any]) -> Iterator[Any]:
    """What might be answered: a small value that fits what was asked for, and what the deadline would answer."""
    schema = wait["schema"]
    if schema is not None:
        made = example(schema, schema.get("$defs", {}))
        if misfit(codec.encode(schema), made) is None:
            yield made
    if wait["default"] is not None:
        yield wait["default"][0]


def _of_a_signal(workflow: Workflow, signal: Mapping[str, Any]) -> Iterator[Finding]:
    name, version = signal["name"], signal["version"]
    try:
        workflow.upcasts.payload(name, signal["payload"], version, workflow.schema_version)
    except UpcastFailed as error:
        why = f"the signal {name} that was kept for it can't be upcast (version {version} to {workflow.schema_version})"
        yield Finding(verdict=Verdict.STUCK, why=why, detail=str(error), path=error.path)
