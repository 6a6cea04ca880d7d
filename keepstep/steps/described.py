"""An exception as JSON that can be stored and shown."""

from __future__ import annotations

import traceback as tracebacks
from typing import Any

from keepstep.steps.errors import BadState, CheckpointDamaged


def describe(error: BaseException) -> dict[str, Any]:
    """An exception as JSON: its type, its message, the JSON path if it has one, and the traceback's last lines."""
    described = {"type": type(error).__name__, "message": _text(error)[:4000], "traceback": _traceback(error)[-8000:]}
    if isinstance(error, BadState | CheckpointDamaged):
        described["path"] = error.path
    return {name: storable(text) for name, text in described.items()}


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  (a user's __str__ may raise anything; the case is still held with its type)
        return f"<{type(error).__name__} whose __str__ raises>"


def _traceback(error: BaseException) -> str:
    try:
        return "".join(tracebacks.format_exception(error, limit=-12))
    except Exception:  # noqa: BLE001  (so may the attributes that the traceback shows)
        return ""


def storable(text: str) -> str:
    """Text that PostgreSQL can show: without NUL and lone surrogates."""
    return text.replace("\0", "\\0").encode("utf-8", "replace").decode()
