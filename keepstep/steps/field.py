"""One field of a state: can a value that came from outside be it?"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from keepstep.steps.state import pointer


def why_not(model: type[BaseModel], field: str, value: Any) -> str | None:
    """Why the JSON value can't be the field; None if it can, as far as the field alone can tell."""
    if field not in model.model_fields:
        return f"{model.__name__} has no field {field!r}"
    try:
        _adapter(model, field).validate_json(json.dumps(value))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        below = "".join(pointer(part) for part in first["loc"])
        return f"{model.__name__}{pointer(field)}{below}: {first['msg']}"
    except Exception as error:  # noqa: BLE001  (a user's validator may raise anything)
        return f"{model.__name__}{pointer(field)}: its validator raises {type(error).__name__}"
    return None


@lru_cache(maxsize=1024)
def _adapter(model: type[BaseModel], field: str) -> TypeAdapter[Any]:
    info = model.model_fields[field]
    kind: Any = Annotated[info.annotation or object, info]
    return TypeAdapter(kind)
