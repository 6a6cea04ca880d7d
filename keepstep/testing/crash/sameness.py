"""Whether two cases ended in the same state, apart from what may differ."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from keepstep.checkpoint.delta import diff
from keepstep.testing.crash.facts import Lived

NAMED = "<thread id>"


def comparable(lived: Lived, ignore: Iterable[str]) -> Any:
    """The state without what is to be ignored, and with a word in the place of the thread id.

    ignore: fields of the state, or JSON pointers with `*` for every item: `receipt`, `/documents/*/id`.
    """
    state = json.loads(json.dumps(lived.state).replace(json.dumps(lived.thread_id)[1:-1], NAMED))
    for name in ignore:
        _remove(state, name.lstrip("/").split("/"))
    return state


def differences(before: Any, after: Any) -> list[str]:
    """JSON pointers to what differs, with both values."""
    return [
        f"{operation['path'] or 'all of it'}: {_short(_value(before, operation['path']))} without a crash, "
        f"{_short(operation['value']) if 'value' in operation else 'gone'} now"
        for operation in diff(before, after)
    ]


def _remove(state: Any, path: list[str]) -> None:
    first, rest = path[0].replace("~1", "/").replace("~0", "~"), path[1:]
    places: list[Any] = []
    if isinstance(state, dict):
        places = list(state) if first == "*" else [first] * (first in state)
    elif isinstance(state, list):
        places = (
            list(range(len(state))) if first == "*" else [int(first)] * (first.isdecimal() and int(first) < len(state))
        )
    for place in reversed(places):
        if rest:
            _remove(state[place], rest)
        else:
            del state[place]


def _value(state: Any, path: str) -> Any:
    for part in path.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(state, dict):
            state = state.get(name)
        elif isinstance(state, list) and name.isdecimal() and int(name) < len(state):
            state = state[int(name)]
        else:
            return None
    return state


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
