"""What a case is doing now, why, and what a person can do about it: one function for each status."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from rich.markup import escape

from keepstep.checkpoint.nodes import NodeView
from keepstep.checkpoint.reads import Case
from keepstep.cli.printing import ago, moment, one_line

Waits = Sequence[dict[str, Any]]


def explain(case: Case, waits: Waits, nodes: Sequence[NodeView]) -> list[str]:
    """Lines of rich's markup."""
    match case.status:
        case "queued":
            lines = _queued(case, nodes)
        case "running":
            lines = [f"A worker is running {_step(case)}{_again(case)}."]
        case "sleeping":
            lines = _sleeping(case)
        case "waiting":
            lines = [line for wait in waits for line in _waiting(case, wait)]
        case "held":
            lines = _held(case)
        case "completed":
            lines = ["It has gone through all its steps."]
        case "failed":
            lines = ["It has failed, for good.", *_error(case.error)]
        case other:
            lines = [f"It is {other}."]
    return [*lines, "It is paused: nothing happens until it is resumed."] if case.paused else lines


def _queued(case: Case, nodes: Sequence[NodeView]) -> list[str]:
    lines = [f"Its next step, {_step(case)}, waits for a worker on the queue {escape(case.queue or '')}{_again(case)}."]
    able = [node for node in nodes if case.queue in node.queues and case.workflow in node.workflows]
    if able:
        lines.append(f"{len(able)} worker(s) can take it.")
    else:
        start = f"keepstep --workflows MODULE worker -Q {shlex.quote(case.queue or '')}"
        lines += ["No live worker knows this workflow and reads this queue. Start one:", f"  {escape(start)}"]
    return lines


def _sleeping(case: Case) -> list[str]:
    due = f" It is due {ago(case.due_at)}." if case.due_at else ""
    if case.reason:
        return [f"{_step(case)} didn't work, and is tried again{_again(case)}.{due}", *_error(case.reason)]
    return [f"It sleeps before {_step(case)}.{due}"]


def _waiting(case: Case, wait: dict[str, Any]) -> list[str]:
    deadline = f", until {moment(wait['deadline'])}" if wait["deadline"] else ""
    lines = [f"It waits for [bold]{escape(wait['name'])}[/]{escape(deadline)}."]
    if wait["prompt"] is not None:
        lines += ["It asks:", *(f"  {escape(line)}" for line in _prompt(wait["prompt"]))]
    return [*lines, "Answer it:", f"  [bold]{escape(answer_command(case, wait))}[/]"]


def _prompt(prompt: Any) -> list[str]:
    if not isinstance(prompt, dict):
        return [one_line(prompt if isinstance(prompt, str) else json.dumps(prompt, ensure_ascii=False), 400)]
    shown = {k: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for k, v in prompt.items()}
    return [f"{name}: {one_line(value, 400)}" for name, value in shown.items()]


def _held(case: Case) -> list[str]:
    why = str((case.reason or {}).get("why", "an operator is asked"))
    retry = f"keepstep retry {shlex.quote(case.workflow)} {shlex.quote(case.thread_id)}"
    return [
        f"It is held at {_step(case)}: [bold]{escape(why)}[/]. Nothing is lost; its last good checkpoint stands.",
        *_error(case.reason),
        "When the cause is mended, let it go on with this step, under the same idempotency key:",
        f"  [bold]{escape(retry)}[/]",
    ]


def _error(error: dict[str, Any] | None) -> list[str]:
    if not error:
        return []
    where = f" at {error['path']}" if error.get("path") else ""
    lines = [f"  [red]{escape(str(error.get('type', 'error')))}[/]{escape(where)}: {escape(_message(error))}"]
    trace = str(error.get("traceback") or "").strip().splitlines()
    return [*lines, *(f"  [dim]{escape(line)}[/]" for line in trace[-7:-1])]


def _message(error: dict[str, Any]) -> str:
    return one_line(str(error.get("message", "")), 400)


def _step(case: Case) -> str:
    return f"[bold]{escape(case.step or '?')}[/]"


def _again(case: Case) -> str:
    """The attempt, if it isn't the first. Queued and sleeping cases have the attempts behind them, not ahead."""
    made = case.attempt or 0
    if case.status == "running":
        return f" (attempt {made})" if made > 1 else ""
    return f" (after {made} attempt{'s' if made > 1 else ''})" if made else ""


def answer_command(case: Case, wait: dict[str, Any]) -> str:
    """The very command that answers a wait, with a payload that fits its schema."""
    words = ["keepstep", "signal", case.workflow, case.thread_id, wait["name"]]
    schema = wait["schema"]
    if schema is not None:
        words += ["--payload", json.dumps(example(schema, schema.get("$defs", {})), ensure_ascii=False)]
        if "actor" in schema.get("properties", {}):
            words += ["--actor", "YOU"]
    return shlex.join(words)


def example(schema: dict[str, Any], definitions: dict[str, Any], depth: int = 0) -> Any:
    """A small value that fits a JSON Schema as pydantic writes them: what is required, and nothing else."""
    if "$ref" in schema and depth < 5:
        name = str(schema["$ref"]).rpartition("/")[2]
        return example(definitions.get(name, {}), definitions, depth + 1)
    for known in ("const", "default"):
        if known in schema:
            return schema[known]
    for several in ("enum", "examples"):
        if schema.get(several):
            return schema[several][0]
    if schema.get("anyOf"):
        return example(schema["anyOf"][0], definitions, depth + 1)
    if schema.get("type") == "object":
        fields = schema.get("properties", {})
        return {name: example(fields.get(name, {}), definitions, depth + 1) for name in schema.get("required", ())}
    return {"boolean": True, "integer": 0, "number": 0, "array": [], "string": "…", "null": None}.get(
        str(schema.get("type")), "…"
    )
