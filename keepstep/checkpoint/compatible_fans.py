"""Could this code go on with that fan-out? With what is to begin, with what has ended, with where it leads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from keepstep.checkpoint.finding import Finding, Verdict, of_a_target, refused, would_refuse
from keepstep.checkpoint.gathered import Outcome, together
from keepstep.checkpoint.inflight import Stored, StoredFan
from keepstep.steps import state as states
from keepstep.steps.errors import BadState, UpcastFailed
from keepstep.steps.state import JSON
from keepstep.steps.upcasts import load
from keepstep.steps.workflow import Workflow

Find = Callable[[str], Workflow | None]


def of_a_fan(workflow: Workflow, case: Stored, stored: JSON, fan: StoredFan, find: Find) -> Iterator[Finding]:
    """What stands in the way of a case that waits for its branches."""
    if fan.then is not None:
        yield from of_a_target(workflow, fan.then["step"], "its fan-out leads to")
    yield from _to_begin(fan, find)
    if fan.into is not None:
        yield from _ended(workflow, case, stored, fan, fan.into, find)


def _to_begin(fan: StoredFan, find: Find) -> Iterator[Finding]:
    """The first item of each kind that its code could not load."""
    told: set[str] = set()
    for number, kind, state in fan.to_begin:
        name, known = kind["name"], find(kind["workflow"])
        if name in told:
            continue
        found = _no_code(kind, known) or _no_item(number, kind, known, state)
        if found is not None:
            told.add(name)
            yield found


def _no_code(kind: dict[str, Any], known: Workflow | None) -> Finding | None:
    name, version = kind["name"], kind["schema_version"]
    if known is None:
        why = f"its fan-out is to begin cases of {kind['workflow']}, which isn't loaded"
        return Finding(verdict=Verdict.WARNED, why=why)
    if version > known.schema_version:
        why = f"an item of its fan-out, for {name}, has version {version}, this code knows {known.schema_version}"
        return Finding(verdict=Verdict.STUCK, why=why)
    return next(of_a_target(known, kind["step"], "a branch of its fan-out begins at"), None)


def _no_item(number: int, kind: dict[str, Any], known: Workflow | None, state: JSON) -> Finding | None:
    if known is None:
        return None
    version = kind["schema_version"]
    try:
        load(known, state, version, step=kind["step"])
    except BadState as error:
        why = f"an item of its fan-out can't be loaded by {kind['name']} (version {version} to {known.schema_version})"
        return Finding(verdict=Verdict.HELD, why=why, detail=f"branch {number}: {error}", path=error.path)
    return None


def _ended(workflow: Workflow, case: Stored, stored: JSON, fan: StoredFan, field: str, find: Find) -> Iterator[Finding]:
    """What has ended so far, gathered as the join would gather it if nothing else came."""
    outcomes = list(fan.ended)
    for one in outcomes:
        known = find(one.kind["workflow"])
        if known is not None and one.version > known.schema_version:
            name = one.kind["name"]
            why = f"a result of {name} has version {one.version}, this code knows {known.schema_version}"
            yield Finding(verdict=Verdict.STUCK, why=why)
            return
    # a branch that ends under this code has a result of its version, and then the whole state goes along
    as_asked = case.version < workflow.schema_version and not fan.goes_on
    as_asked = as_asked and all(one.version == one.asked for one in outcomes)
    version = case.version if as_asked else workflow.schema_version
    extra = workflow.state.model_config.get("extra") == "allow"
    if not as_asked and field not in workflow.state.model_fields and not extra:
        why = f"its fan-out's results go into {states.pointer(field)}, which {workflow.state.__name__} doesn't have"
        yield Finding(verdict=Verdict.HELD, why=why, path=states.pointer(field))
        return
    if not outcomes:
        return
    why = f"what its branches came to doesn't fit {workflow.state.__name__}{states.pointer(field)}"
    try:
        gathered = outcomes if as_asked else [_upcast(one, find) for one in outcomes]
    except UpcastFailed as error:
        yield Finding(verdict=Verdict.HELD, why=why, detail=str(error), path=error.path)
        return
    value = together(fan.shape, fan.on_error, gathered, None)
    reason = refused(workflow, version, stored, field, value, case.fetch)
    if reason is not None:
        verdict = Verdict.HELD if would_refuse(reason) else Verdict.WARNED
        yield Finding(verdict=verdict, why=why, detail=reason, path=states.pointer(field))


def _upcast(one: Outcome, find: Find) -> Outcome:
    known = find(one.kind["workflow"])
    if known is None:
        return one
    return replace(one, result=known.upcasts.result(one.kind["step"], one.result, one.version))
