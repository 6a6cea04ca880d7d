"""A state, cut so that a person can read it on one screen."""

from __future__ import annotations

import json
from typing import Any

TEXT, ITEMS, LINES = 160, 8, 48


def shorten(state: Any, *, full: bool = False) -> list[str]:
    """The lines of the state as JSON; long texts, long lists and what is beyond a screen are cut, and it is said."""
    text = json.dumps(state if full else _cut(state), indent=2, ensure_ascii=False)
    lines = text.splitlines()
    if full or len(lines) <= LINES:
        return lines
    return [*lines[:LINES], f"… {len(lines) - LINES} more lines: --full shows all"]


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > TEXT:
        return f"{value[:TEXT]}… ({len(value)} characters)"
    if isinstance(value, list):
        kept = [_cut(item) for item in value[:ITEMS]]
        return kept if len(value) <= ITEMS else [*kept, f"… {len(value) - ITEMS} more"]
    if isinstance(value, dict):
        return {name: _cut(item) for name, item in value.items()}
    return value
