"""Call a workflow's hooks: as a task of their own, at least once, each with its own key."""

from __future__ import annotations

import logging

from keepstep.checkpoint import hooks, reads
from keepstep.config.logs import case_logger
from keepstep.steps.decide import describe
from keepstep.steps.hooks import HookCall
from keepstep.steps.keys import idempotency_key
from keepstep.workers.engine import Engine

log = logging.getLogger("keepstep.hook")


def ring_hooks(engine: Engine) -> None:
    """Send a message for each hook that is due, to the queue of its workflow."""
    for hook in hooks.due(engine.db, list(engine.registry.versions), engine.limits.rows):
        engine.bell.ring_hook(hook, engine.registry.get(hook.workflow).queue)


def call_hooks(engine: Engine, hook_id: int) -> None:
    """Call the functions of one event of one case. If one raises, all are called again later, under the same keys."""
    pending = hooks.find(engine.db, hook_id)
    case = None if pending is None else reads.get(engine.db, pending.case)
    if pending is None or case is None:
        return  # done before, or pruned
    for function in engine.registry.get(pending.workflow).hooks.get(pending.event, []):
        name = f"hook:{pending.event}:{getattr(function, '__name__', 'hook')}"
        call = HookCall(
            event=pending.event,
            key=str(idempotency_key(pending.run, pending.seq, f"{name}:{pending.id}")),  # held twice is told twice
            attempt=pending.attempt,
            wait=pending.wait,
            log=case_logger(pending.workflow, pending.thread_id, name, pending.seq),
        )
        try:
            function(case, call)
        except Exception as error:
            log.exception("%s/%s: %s raised; it is called again later", case.workflow, case.thread_id, name)
            hooks.failed(engine.db, pending.id, describe(error))
            return
    hooks.done(engine.db, pending.id)
