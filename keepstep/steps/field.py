"""One field of a state: can a value that came from outside be it?"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from keepstep.steps.flaws import pointer


def why_not(model: type[BaseModel], field: str, value: Any) -> str | None:
    """Why the JSON value can't be the field; None if it can, as far as the field alone can tell.

    Validated by field names, aliases aside: so it is stored, and so it is loaded.
    """
    if field not in model.model_fields:
        return f"{model.__name__} has no field {field!r}"
    return _why_not(_adapter(model, field), f"{model.__name__}{pointer(field)}", value)


def why_not_payload(model: type[BaseModel], value: Any) -> str | None:
    """Why the JSON value can't be the payload's model; None if it can."""
    return _why_not(_payload_adapter(model), model.__name__, value)


def _why_not(adapter: TypeAdapter[Any], at: str, value: Any) -> str | None:
    try:
        adapter.validate_json(json.dumps(value), by_name=True, by_alias=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        below = "".join(pointer(part) for part in first["loc"])
        return f"{at}{below}: {first['msg']}"
    except Exception as error:  # noqa: BLE001  (a user's validator may raise anything)
        return f"{at}: its validator raises {type(error).__name__}"
    return None


@lru_cache(maxsize=1024)
def _adapter(model: type[BaseModel], field: str) -> TypeAdapter[Any]:
    info = model.model_fields[field]
    kind: Any = Annotated[info.annotation or object, info]
    return TypeAdapter(kind)


@lru_cache(maxsize=1024)
def _payload_adapter(model: type[BaseModel]) -> TypeAdapter[Any]:
    return TypeAdapter(model)
