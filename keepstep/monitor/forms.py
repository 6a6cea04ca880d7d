"""Forms from a payload's JSON Schema, as pydantic writes them; and the payload from what a form sends. Pure.

What no plain field can hold (lists, unions, deep objects) is a field for JSON, so that every schema has a form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DEPTH = 3
"""Objects in objects that are taken apart into fields."""
PREFIX = "p"
SIGNED = "actor"
"""The field that says who decides, which nobody need fill in: it is known who sends the form."""

_INPUTS = {"integer": "integer", "number": "number", "boolean": "boolean", "string": "string"}
_FORMATS = {"date": "date", "time": "time", "email": "email"}


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field. name: in the form. path: in the payload. kind: boolean, choice, integer, string, text, date, json, ...

    choices: JSON values, of which one is sent by its number. initial: a JSON value, or None.
    """

    name: str
    path: tuple[str, ...]
    label: str
    kind: str
    required: bool
    help: str = ""
    choices: Sequence[Any] = ()
    initial: Any = None
    least: Any = None
    most: Any = None
    longest: int | None = None


class BadForm(Exception):
    """What was sent can't be the payload; by field, a sentence."""

    def __init__(self, wrong: dict[str, str]):
        super().__init__("; ".join(wrong.values()))
        self.wrong = wrong


def fields(schema: Mapping[str, Any] | None) -> list[Field]:
    """The fields of a payload; one for any JSON where there is no schema."""
    if schema is None:
        return [
            Field(name=PREFIX, path=(), label="Payload", kind="json", required=False, help="Any JSON; may be empty.")
        ]
    return _fields(schema, schema.get("$defs", {}), (), "Answer", True, 0)


def payload(shown: Sequence[Field], given: Mapping[str, str]) -> Any:
    """What the form says, as JSON; fields that are left empty are left out. Raises BadForm."""
    wrong: dict[str, str] = {}
    built: Any = {}
    for field in shown:
        try:
            value = _value(field, given.get(field.name, ""))
        except ValueError as error:
            wrong[field.name] = f"{field.label}: {error}"
            continue
        if value is _LEFT_OUT:
            if field.required:
                wrong[field.name] = f"{field.label}: this is needed"
            continue
        if not field.path:
            built = value
        else:
            _put(built, field.path, value)
    if wrong:
        raise BadForm(wrong)
    if len(shown) == 1 and not shown[0].path and built == {} and not given.get(shown[0].name, "").strip():
        return None
    return built


_LEFT_OUT = object()


def _fields(
    schema: Mapping[str, Any],
    definitions: Mapping[str, Any],
    path: tuple[str, ...],
    label: str,
    required: bool,
    depth: int,
) -> list[Field]:
    part, nullable = plain(schema, definitions)
    properties = part.get("properties")
    if (
        part.get("type") == "object"
        and isinstance(properties, dict)
        and properties
        and depth < DEPTH
        and (not nullable or not path)
    ):
        needed = part.get("required", ())
        found: list[Field] = []
        for key, below in properties.items():
            if not path and key == SIGNED:
                continue
            title = key.replace("_", " ").capitalize()
            within = f"{label}: {title}" if path else title
            found += _fields(below, definitions, (*path, key), within, required and key in needed, depth + 1)
        return found
    return [_field(part, path, label, required and not nullable)]


def plain(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """The schema without references, and without the null that makes it optional; whether null was among it."""
    outer, nullable, part = schema, False, dict(schema)
    for _ in range(8):
        if "$ref" in part:
            name = str(part["$ref"]).rpartition("/")[2]
            part = {**definitions.get(name, {}), **{k: v for k, v in part.items() if k != "$ref"}}
            continue
        several = part.get("anyOf") or part.get("oneOf")
        if not several:
            break
        others = [one for one in several if one.get("type") != "null"]
        nullable = nullable or len(others) < len(several)
        if len(others) != 1:
            return {**part, "type": None}, nullable
        part = {**others[0], **{k: v for k, v in part.items() if k not in ("anyOf", "oneOf")}}
    return {**part, **{k: outer[k] for k in ("title", "description", "default") if k in outer}}, nullable


def _field(part: Mapping[str, Any], path: tuple[str, ...], label: str, required: bool) -> Field:
    kind = _INPUTS.get(str(part.get("type")), "json")
    choices: Sequence[Any] = ()
    if "const" in part:
        choices = [part["const"]]
    elif isinstance(part.get("enum"), list):
        choices = part["enum"]
    if choices:
        kind = "choice"
    elif kind == "string":
        kind = _FORMATS.get(str(part.get("format")), "text" if _is_long(path, part) else "string")
    return Field(
        name=".".join((PREFIX, *path)),
        path=path,
        label=label,
        kind=kind,
        required=required and part.get("default") is None,
        help=_help(part, kind),
        choices=choices,
        initial=part.get("default"),
        least=part.get("minimum"),
        most=part.get("maximum"),
        longest=part.get("maxLength"),
    )


def _is_long(path: tuple[str, ...], part: Mapping[str, Any]) -> bool:
    return (part.get("maxLength") or 0) > 200 or bool(path and path[-1] in ("note", "comment", "reason", "text"))


def _help(part: Mapping[str, Any], kind: str) -> str:
    said = str(part.get("description") or "")
    if kind == "json":
        what = {"array": "a list", "object": "an object"}.get(str(part.get("type")), "any value")
        said = f"{said} As JSON: {what}.".strip()
    elif part.get("format") and kind == "string":
        said = f"{said} A {part['format']}.".strip()
    return said


def _value(field: Field, text: str) -> Any:
    """The JSON value of what was typed. Raises ValueError with a sentence."""
    if field.kind not in ("text", "string") or not field.required:
        text = text.strip()
    if text == "":
        return _LEFT_OUT
    match field.kind:
        case "boolean":
            return {"true": True, "false": False}[text] if text in ("true", "false") else _no("yes or no")
        case "choice":
            chosen = [choice for number, choice in enumerate(field.choices) if str(number) == text]
            return chosen[0] if chosen else _no("one of the choices")
        case "integer":
            return _number(int, text, "a whole number")
        case "number":
            return _number(float, text, "a number")
        case "json":
            try:
                return json.loads(text, parse_constant=_no)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"this is not JSON ({str(error)[:80]})") from None
    return text


def _number(kind: type[int] | type[float], text: str, what: str) -> Any:
    try:
        number = kind(text)
    except ValueError:
        return _no(what)
    return number if abs(number) < 1e308 else _no(what)


def _no(what: str) -> Any:
    raise ValueError(f"give {what}")


def _put(built: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        built = built.setdefault(key, {})
    built[path[-1]] = value
