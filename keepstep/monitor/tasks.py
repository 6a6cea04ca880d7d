"""From Flower's tasks to cases, and back: a task is named `workflow.step`, and shows the thread id."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from keepstep.checkpoint import census
from keepstep.checkpoint.reads import Case
from keepstep.monitor.handler import CasesHandler, Refused
from keepstep.steps.keys import case_id

MOST = 20
"""Tasks of one case that its page links to."""


class CaseOfTask(CasesHandler):
    """From a task's id to the page of the case whose step it ran."""

    async def get(self, task_id: str) -> None:
        """Redirect to the case, at the checkpoint from which the step ran."""
        task = self.application.events.state.tasks.get(task_id)
        if task is None:
            raise Refused(404, "Flower knows no such task any more: it keeps the latest ones in its memory.")
        read = arguments(task.args)
        ids = [] if read is None else candidates(str(task.name or ""), read[0])
        found = await self.desk.ask(census.known, self.desk.client.db, ids)
        if read is None or not found:
            raise Refused(404, "This task ran no step of a case that is still kept.")
        self.redirect(f"{self.reverse_url('keepstep_case', str(found[0]))}?seq={read[1]}")


def is_step(task: Any) -> bool:
    """Whether the task looks like a step of a case."""
    return "." in str(task.name or "") and arguments(task.args) is not None


def arguments(shown: object) -> tuple[str, int] | None:
    """The thread id (or the case's id, where thread ids are hidden) and the seq in a task's arguments, as text."""
    if not isinstance(shown, str) or len(shown) > 2000:
        return None
    try:
        found = ast.literal_eval(shown)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        name, _, seq = shown.strip("()").partition(", ")
        return (name, int(seq)) if _is_id(name) and seq.isascii() and seq.isdecimal() else None
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], str) and type(found[1]) is int:
        return found[0], max(0, found[1])
    return None


def candidates(name: str, thread_id: str) -> list[UUID]:
    """The cases that a task's name and thread id may mean: both parts of `workflow.step` may have dots in them."""
    parts = name.split(".")
    workflows = [".".join(parts[:number]) for number in range(1, len(parts))]
    own = [UUID(thread_id)] if _is_id(thread_id) else []
    return [case_id(workflow, thread_id) for workflow in workflows] + own


def of_case(tasks: Iterable[Any], case: Case) -> list[Any]:
    """Those of Flower's tasks that ran steps of the case, the newest first."""
    beginnings = (f"({case.thread_id!r}, ", f"({case.id}, ")
    prefix = f"{case.workflow}."
    found = [
        task
        for task in tasks
        if isinstance(task.args, str) and task.args.startswith(beginnings) and str(task.name).startswith(prefix)
    ]
    return sorted(found, key=lambda task: task.received or task.timestamp or 0, reverse=True)[:MOST]


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return len(text) == 36
