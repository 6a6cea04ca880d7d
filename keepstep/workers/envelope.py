"""A message as Celery's protocol 2 and kombu's Redis transport have it, made without either.

What all messages of one step share is prepared once; a message only adds its id, what people see of its arguments, and
its body. Stock workers, Flower and `inspect` read it like any other.
"""

from __future__ import annotations

import base64
import json
from functools import cache, lru_cache
from typing import Any
from uuid import UUID, uuid4

from celery.utils.nodenames import anon_nodename

from keepstep.checkpoint.ring import Delivery

TASK = "keepstep.step"
"""The one task name of every step: an unknown name would be thrown away by a worker of the release before."""

HOOK_TASK = "keepstep.hook"
"""The task name of every hook."""

KILL_GRACE = 60.0
"""Seconds between the interruption of a step at its timeout and the killing of its process.

Its case has been taken away long before; what is waited for is a commit that meets a restart of the database.
"""

_ID, _ARGUMENTS, _BODY = "\x01", "\x02", "\x03"
_EMBED = '{"callbacks": null, "errbacks": null, "chain": null, "chord": null}'


def envelope(case: str, seq: int, *, shadow: str, shown: str, queue: str, timeout: float, priority: int) -> str:
    """One message, ready for its list. shown: the arguments, for people. priority: kombu's, 0 comes first."""
    body = base64.b64encode(f'[["{case}", {seq}], {{}}, {_EMBED}]'.encode()).decode()
    return (
        _frame(shadow, queue, timeout, priority)
        .replace(_ID, str(uuid4()))
        .replace(_ARGUMENTS, json.dumps(shown)[1:-1])
        .replace(_BODY, body)
    )


def named_by(message: str | bytes) -> Delivery | None:
    """The step that a message in its list names; None if it isn't a step's."""
    try:
        read = json.loads(message)
        [case, seq] = json.loads(base64.b64decode(read["body"]))[0][:2]
        return Delivery(case=UUID(case), seq=int(seq)) if read["headers"]["task"] == TASK else None
    except (ValueError, TypeError, KeyError, IndexError):
        return None


@lru_cache(maxsize=1024)
def _frame(shadow: str, queue: str, timeout: float, priority: int) -> str:
    headers: dict[str, Any] = {
        "lang": "py",
        "task": TASK,
        "id": _ID,
        "shadow": shadow,
        "eta": None,
        "expires": None,
        "group": None,
        "group_index": None,
        "retries": 0,
        "timelimit": [timeout + KILL_GRACE, timeout],
        "root_id": _ID,
        "parent_id": None,
        "argsrepr": _ARGUMENTS,
        "kwargsrepr": "{}",
        "origin": _origin(),
        "ignore_result": True,
        "replaced_task_nesting": 0,
        "stamped_headers": None,
        "stamps": {},
    }
    properties = {
        "correlation_id": _ID,
        "reply_to": "",
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": queue},
        "priority": priority,
        "body_encoding": "base64",
        "delivery_tag": _ID,
    }
    message = {
        "body": _BODY,
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": headers,
        "properties": properties,
    }
    text = json.dumps(message)
    for marker in (_ID, _ARGUMENTS, _BODY):
        text = text.replace(json.dumps(marker)[1:-1], marker)
    return text


@cache
def _origin() -> str:
    return str(anon_nodename())
