"""How a wait is answered: the very command, with a payload that fits its schema."""

from __future__ import annotations

import json
import shlex
from typing import Any


def answer_command(workflow: str, thread_id: str, wait: dict[str, Any]) -> str:
    """The command that answers the wait; of a stream, the one that sends it a message."""
    words = ["keepstep", "send" if wait["stream"] else "signal", workflow, thread_id, wait["name"]]
    schema = wait["schema"]
    if schema is not None:
        words += ["--payload", json.dumps(example(schema, schema.get("$defs", {})), ensure_ascii=False)]
    if wait["approvers"] > 1 or (schema is not None and asks_for("actor", schema)):
        words += ["--actor", "YOU"]
    return shlex.join(words)


def asks_for(field: str, schema: dict[str, Any]) -> bool:
    """Whether what fits the schema can be an object with this field, also by way of references and alternatives."""
    definitions = schema.get("$defs", {})
    seen: set[str] = set()
    left = [schema]
    while left:
        part = left.pop()
        if field in part.get("properties", {}):
            return True
        left += [one for several in ("anyOf", "oneOf", "allOf") for one in part.get(several, ())]
        name = str(part.get("$ref", "")).rpartition("/")[2]
        if name and name not in seen:
            seen.add(name)
            left.append(definitions.get(name, {}))
    return False


def example(schema: dict[str, Any], definitions: dict[str, Any], depth: int = 0) -> Any:
    """A small value that fits a JSON Schema as pydantic writes them: what is required, and nothing else.

    Null only where nothing else would do: it answers hardly any question.
    """
    if "$ref" in schema and depth < 5:
        name = str(schema["$ref"]).rpartition("/")[2]
        return example(definitions.get(name, {}), definitions, depth + 1)
    for known in ("const", "default"):
        if schema.get(known) is not None:
            return schema[known]
    for several in ("enum", "examples"):
        if schema.get(several):
            return schema[several][0]
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    if alternatives:
        telling = [one for one in alternatives if one.get("type") != "null"] or alternatives
        return example(telling[0], definitions, depth + 1)
    if schema.get("type") == "object":
        fields = schema.get("properties", {})
        return {name: example(fields.get(name, {}), definitions, depth + 1) for name in schema.get("required", ())}
    return {"boolean": True, "integer": 0, "number": 0, "array": [], "string": "…", "null": None}.get(
        str(schema.get("type")), "…"
    )
