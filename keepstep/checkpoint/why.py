"""Why a case stands where it stands: what it waits for, and what would move it. Pure: from facts to sentences."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from keepstep.checkpoint import why_branches
from keepstep.checkpoint.answers import answer_command
from keepstep.checkpoint.database import Row
from keepstep.checkpoint.fan_reads import BranchView, FanView
from keepstep.checkpoint.nodes import NodeView
from keepstep.checkpoint.reads import Case
from keepstep.steps.moves import Status
from keepstep.steps.results import UNFIT
from keepstep.steps.waiting import WAIT_EXPIRED
from keepstep.steps.words import duration, one_line


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What else is known of a live case. now: the database's clock. host, process: of the node that runs it.

    silent: seconds since that node's last heartbeat. paused_by, paused_why, paused_at: from the audit, if it is paused.
    in_doubt: a call of its step may have taken effect. unkeyed: steps that were called more than once, and whose code
    never asked for its idempotency key.
    """

    now: datetime
    deadline: datetime | None
    schema_version: int | None
    host: str | None
    process: str | None
    silent: float | None
    paused_by: str | None
    paused_why: str | None
    paused_at: datetime | None
    in_doubt: bool | None = None
    unkeyed: list[str] | None = None

    @classmethod
    def of(cls, row: Row) -> Standing:
        """From the row that `reads.standing` finds."""
        return cls(**row._mapping)


@dataclass(frozen=True, kw_only=True)
class Why:
    """sentence: what the case waits for. details: the error, or what is asked. moves: what would move it, in words.

    commands: for a shell, those that move it.
    """

    sentence: str
    details: tuple[str, ...] = ()
    moves: str = ""
    commands: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.sentence} {self.moves}".strip()


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that `why` knows. waits: the open ones. nodes: the live ones. fan: what it waits for, and held ones of it."""

    case: Case
    standing: Standing
    waits: Sequence[dict[str, Any]]
    nodes: Sequence[NodeView]
    fan: FanView | None = None
    held: Sequence[BranchView] = ()


def why(facts: Facts) -> Why:
    """Say what the case waits for, and what would move it."""
    told = _BY_STATUS[facts.case.status](facts)
    if facts.standing.unkeyed:
        which = ", ".join(facts.standing.unkeyed[:20])
        unsafe = f"Called more than once, and never asked for call.key, so its effect may have repeated: {which}."
        told = replace(told, details=(*told.details, unsafe))
    if facts.case.parent is not None:
        told = replace(told, details=(*told.details, f"It is a branch of {one_line('/'.join(facts.case.parent))}."))
    if not facts.case.paused:
        return told
    at = facts.standing
    who = f" by {at.paused_by}" if at.paused_by else ""
    since = f" {duration((at.now - at.paused_at).total_seconds())} ago" if at.paused_at else ""
    reason = f" ({one_line(at.paused_why)})" if at.paused_why else ""
    paused = f"It was paused{who}{since}{reason}, and no step begins until it is resumed."
    return Why(
        sentence=f"{paused} {told.sentence}",
        details=told.details,
        moves=f"Resume it. {told.moves}".strip(),
        commands=(_command("resume", facts.case), *told.commands),
    )


# -------------------------------------------------------------------------------------------------- one for each status
def _queued(facts: Facts) -> Why:
    case = facts.case
    what = f"verify what {case.step} did" if facts.standing.in_doubt else f"take {case.step}"
    sentence = f"It waits for a worker to {what} on the queue {case.queue}{_again(case)}."
    readers = [node for node in facts.nodes if case.queue in node.queues]
    able = [node for node in readers if case.workflow in node.workflows]
    new_enough = [node for node in able if node.workflows[case.workflow] >= (facts.standing.schema_version or 1)]
    start = f"keepstep --workflows MODULE worker -Q {shlex.quote(case.queue or '')}"
    if new_enough:
        moves = f"{_workers(new_enough)} can take it: as soon as one is free, or by the sweep's next ring (10 s)."
        return Why(sentence=sentence, moves=moves)
    if able:
        knows = max(node.workflows[case.workflow] for node in able)
        lack = (
            f"{_workers(able)} of this queue can load the state of {case.workflow} up to version {knows} only, and "
            f"this case's is of version {facts.standing.schema_version}. Deploy the newer code there."
        )
        return Why(sentence=f"{sentence} {lack}", moves="Then it goes on by itself.")
    if readers:
        lack = f"{_workers(readers)} of this queue can't take it: none knows the workflow {case.workflow}."
    elif facts.nodes:
        others = ", ".join(sorted({queue for node in facts.nodes for queue in node.queues}))
        lack = f"No live worker reads this queue; read are {one_line(others)}."
    else:
        lack = "No worker is alive."
    return Why(sentence=f"{sentence} {lack}", moves="Start one:", commands=(start,))


def _running(facts: Facts) -> Why:
    case, at = facts.case, facts.standing
    who = "A worker"
    if at.host:
        pid = (at.process or "").partition(":")[0]
        who = f"The node {at.host} (pid {pid}, last heartbeat {duration(max(0.0, at.silent or 0.0))} ago)"
    doing = "verifying what became of an earlier call of" if at.in_doubt else "running"
    until = f" until {_moment(at.deadline, at.now)}, the step's time limit" if at.deadline else ""
    return Why(
        sentence=f"{who} is {doing} {case.step}{_again(case)}, and holds its lease{until}.",
        moves="It goes on when the step returns; if that node dies, another one takes over.",
    )


def _sleeping(facts: Facts) -> Why:
    case, at = facts.case, facts.standing
    due = _moment(case.due_at, at.now) if case.due_at else "an unknown time"
    if at.in_doubt:
        return Why(
            sentence=f"A call of {case.step} may have taken effect; at {due} its verify looks whether it did.",
            details=_error(case.reason),
            moves="If it did, the case goes on with its result; if it did not, the step is called again.",
        )
    if not case.reason:
        return Why(sentence=f"It sleeps until {due}.", moves=f"Then {case.step} runs.")
    if case.reason.get("type") == "UnknownStep":
        return Why(
            sentence=f"No worker that was asked has code for its step {case.step}; another one is asked at {due}.",
            details=_error(case.reason),
            moves="Deploy code that has the step, or an alias for it; after some tries it is held.",
        )
    failed = f"{case.step} failed{_again(case)} with {_short(case.reason)}"
    return Why(
        sentence=f"It backs off until {due}, because {failed}.",
        details=_error(case.reason),
        moves="Then it is tried again.",
    )


def _waiting(facts: Facts) -> Why:
    case = facts.case
    if facts.fan is not None:
        lines, commands = why_branches.held(facts.held)
        on = "Whatever is held must go on:" if commands else "It goes on when they have ended."
        sentence = why_branches.waits_for(facts.fan, facts.nodes)
        return Why(sentence=sentence, details=lines, moves=on, commands=commands)
    each = [_one_wait(wait, facts.standing.now) for wait in facts.waits]
    return Why(
        sentence="It waits for " + (", and for ".join(each) or "a signal that has just come") + ".",
        details=tuple(line for wait in facts.waits for line in _prompt(wait["prompt"])),
        moves="Answer it:" if each else "It goes on in a moment.",
        commands=tuple(answer_command(case.workflow, case.thread_id, wait) for wait in facts.waits),
    )


def _held(facts: Facts) -> Why:
    case, retry = facts.case, _command("retry", facts.case)
    reason = str((case.reason or {}).get("why", "an operator is asked"))
    if facts.standing.in_doubt:
        return Why(
            sentence=f"It is held at {case.step}, {one_line(reason)}.",
            details=_error(case.reason),
            moves="Look whether it did. If so, go on with its result; if not, call again, under the same key:",
            commands=(_command("skip", case) + " --update '{...}'", retry),
        )
    if reason == UNFIT:
        return Why(
            sentence=f"It is held behind {case.step}: {reason}. Nothing is lost; the branches have ended.",
            details=_error(case.reason),
            moves="Gather them again, when the code is mended; or give the field another value; or fan out anew:",
            commands=(retry, _command("skip", case) + " --update '{...}'", f"{retry} --new-key"),
        )
    return Why(
        sentence=f"It is held at {case.step}: {reason}. Nothing is lost; its last good checkpoint stands.",
        details=_error(case.reason),
        moves="When the cause is mended, let it go on with this step, under the same idempotency key:",
        commands=(retry,),
    )


def _completed(facts: Facts) -> Why:
    return Why(sentence=f"It has gone through all its steps, {_ended(facts)}: it waits for nothing.")


def _failed(facts: Facts) -> Why:
    case, error = facts.case, facts.case.error or {}
    message = f": {_short(error)}" if error else ""
    told = Why(sentence=f"It has failed for good, {_ended(facts)}{message}.", details=_error(error))
    again = f"{_command('rewind', case)} --to {case.seq}"
    if error.get("branch"):
        return replace(
            told, moves="Begin all branches anew, or go on without them:", commands=(again, _command("skip", case))
        )
    if error.get("type") != WAIT_EXPIRED:
        return told
    return replace(told, moves="Ask again, or go on without an answer:", commands=(again, _command("skip", case)))


def _cancelled(facts: Facts) -> Why:
    return Why(sentence=f"It was cancelled, {_ended(facts)}.", details=_error(facts.case.error))


_BY_STATUS = {
    Status.QUEUED: _queued,
    Status.RUNNING: _running,
    Status.SLEEPING: _sleeping,
    Status.WAITING: _waiting,
    Status.HELD: _held,
    Status.COMPLETED: _completed,
    Status.FAILED: _failed,
    Status.CANCELLED: _cancelled,
}


# --------------------------------------------------------------------------------------------------------------- words
def _one_wait(wait: dict[str, Any], now: datetime) -> str:
    return str(wait["name"]) + (f", until {_moment(wait['deadline'], now)}" if wait["deadline"] else "")


def _prompt(prompt: Any) -> list[str]:
    if prompt is None:
        return []
    if not isinstance(prompt, dict):
        return [
            f"asked: {one_line(prompt if isinstance(prompt, str) else json.dumps(prompt, ensure_ascii=False), 400)}"
        ]
    shown = {k: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for k, v in prompt.items()}
    return [f"asked: {name}: {one_line(value, 400)}" for name, value in shown.items()]


def _short(error: dict[str, Any]) -> str:
    parts = [str(error[name]) for name in ("type", "message") if error.get(name)]
    return one_line(": ".join(parts), 200).rstrip(".") or "an error"


def _error(error: dict[str, Any] | None) -> tuple[str, ...]:
    if not error:
        return ()
    where = f" at {error['path']}" if error.get("path") else ""
    trace = str(error.get("traceback") or "").strip().splitlines()
    first = f"{error.get('type', 'error')}{where}: {one_line(str(error.get('message', '')), 400)}"
    return (first, *(f"  {line}" for line in trace[-7:-1]))


def _again(case: Case) -> str:
    """The attempt, if it isn't the first. Queued and sleeping cases have the attempts behind them, not ahead."""
    made = case.attempt or 0
    if case.status == "running":
        return f" (attempt {made})" if made > 1 else ""
    return f" (after {made} attempt{'s' if made > 1 else ''})" if made else ""


def _workers(nodes: Sequence[NodeView]) -> str:
    return f"{len(nodes)} live worker{'s' if len(nodes) > 1 else ''}"


def _ended(facts: Facts) -> str:
    at = facts.case.finished_at
    return f"{duration((facts.standing.now - at).total_seconds())} ago" if at else "just now"


def _moment(instant: datetime, now: datetime) -> str:
    seconds = (instant - now).total_seconds()
    when = f"in {duration(seconds)}" if seconds >= 0 else f"{duration(-seconds)} ago"
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC ({when})"


def _command(verb: str, case: Case) -> str:
    return shlex.join(["keepstep", verb, case.workflow, case.thread_id])
