"""How a wait is answered: the very command, with a payload that fits its schema."""

from __future__ import annotations

import json
import shlex
from typing import Any


def answer_command(workflow: str, thread_id: str, wait: dict[str, Any]) -> str:
    """The command that answers the wait."""
    words = ["keepstep", "signal", workflow, thread_id, wait["name"]]
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
