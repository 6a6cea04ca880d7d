"""Call a workflow's hooks: as a task of their own, at least once, each with its own key."""

from __future__ import annotations

import inspect
import logging
from uuid import uuid5

from keepstep.checkpoint import hooks, reads
from keepstep.checkpoint.hooks import PendingHook
from keepstep.checkpoint.reads import Case
from keepstep.config.logs import about_case, case_logger
from keepstep.steps.decide import describe
from keepstep.steps.errors import CheckpointDamaged, UnknownWorkflow
from keepstep.steps.hooks import Hook, HookCall, names_of
from keepstep.steps.secret import Cover
from keepstep.workers import loop
from keepstep.workers.engine import Engine

log = logging.getLogger("keepstep.hook")


def ring_hooks(engine: Engine) -> None:
    """Send a message for each hook that is due, to the queue of its workflow."""
    due = hooks.due(engine.db, list(engine.registry.versions), engine.limits.rows)
    for number, hook in enumerate(due):
        if not engine.bell.ring_hook(hook, engine.registry.get(hook.workflow).queue):
            hooks.put_back(engine.db, [left.id for left in due[number:]])
            return


def call_hooks(engine: Engine, hook_id: int) -> None:
    """Call the functions of one event of one case. If one raises, all are called again later, under the same keys."""
    pending = hooks.find(engine.db, hook_id)
    case = None if pending is None else _case(engine, pending)
    if pending is None or case is None:
        return  # done before, or pruned
    try:
        functions = engine.registry.get(pending.workflow).hooks.get(pending.event, [])
    except UnknownWorkflow:
        log.warning("%s/%s: this worker reads its queue, but doesn't know it", pending.workflow, pending.thread_id)
        hooks.put_back(engine.db, [pending.id])
        return
    cover = Cover.of(engine.registry.get(pending.workflow).secrets, case.state)
    for name, function in zip(names_of(functions), functions, strict=True):
        try:
            _call(function, name, case, pending, cover)
        except Exception as error:  # noqa: BLE001  (a hook is the user's own code)
            said, named = cover.json(describe(error)), (case.workflow, case.thread_id, name)
            log.error("%s/%s: hook %s raised; it is called again later\n%s", *named, said["traceback"])
            hooks.failed(engine.db, pending.id, said)
            return
    hooks.done(engine.db, pending.id)


def _case(engine: Engine, pending: PendingHook) -> Case | None:
    """The case, without its state if that is what is damaged: then above all somebody must be told."""
    try:
        return reads.get(engine.db, pending.case)
    except (CheckpointDamaged, ValueError):
        return reads.find(engine.db, pending.case)


def _call(function: Hook, name: str, case: Case, pending: PendingHook, cover: Cover) -> None:
    at = f"hook:{pending.event}:{name}"
    call = HookCall(
        event=pending.event,
        key=str(uuid5(pending.key, name)),  # held twice is told twice: each event has a root of its own
        attempt=pending.attempt,
        reason=pending.reason,
        wait=pending.wait,
        log=case_logger(pending.workflow, pending.thread_id, at, pending.seq, lambda: cover),
    )
    with about_case(workflow=pending.workflow, thread_id=pending.thread_id, step=at, seq=pending.seq):
        result = function(case, call)
        if inspect.isawaitable(result):
            loop.run(result)
