"""A workflow's fingerprint: for people, who see by it that two workers ran other code. Nothing is refused for it."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepstep.steps.workflow import Workflow


def fingerprint(workflow: Workflow) -> str:
    """Eight hexadecimal digits of the declaration: the state's JSON Schema, and every step with its source text.

    What a step calls elsewhere isn't in it: two deploys may have one fingerprint.
    """
    declared = {
        "version": workflow.schema_version,
        "state": workflow.state.model_json_schema(),
        "removed": workflow.removed,
        "steps": [
            [
                step.name,
                step.aliases,
                step.next,
                step.queue,
                step.timeout.total_seconds(),
                step.in_doubt,
                step.on_exhausted,
                step.transactional,
                _source(step.function),
                None if step.verify is None else _source(step.verify),
            ]
            for step in workflow.steps.values()
        ],
    }
    return hashlib.sha256(json.dumps(declared, sort_keys=True, default=str).encode()).hexdigest()[:8]


def _source(function: Callable[..., Any]) -> str:
    """The function's text, or its bytecode, or its name: the best there is."""
    function = inspect.unwrap(function)
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        return getattr(function, "__qualname__", "") if code is None else code.co_code.hex()
