"""Identities: the thread id's rules, the case id made from it, and the idempotency key of a step."""

from __future__ import annotations

from uuid import UUID, uuid5

from keepstep.steps.errors import BadThreadId

MAX_THREAD_ID = 255
"""Characters. Long enough for any business key, short enough for an index and a table on a screen."""

_CASES = UUID("7d0c2f5e-3b0a-5c64-9a51-6f1c0b9d4e11")


def check_thread_id(thread_id: str) -> str:
    """Return the thread id if it can be one; raise BadThreadId otherwise."""
    if not isinstance(thread_id, str):
        raise BadThreadId(f"a thread id is text, not {type(thread_id).__name__}: use str(...) of your business key")
    if not thread_id.strip():
        raise BadThreadId("the thread id is empty: give the business key, for instance an application number")
    if len(thread_id) > MAX_THREAD_ID:
        raise BadThreadId(
            f"the thread id has {len(thread_id)} characters, the most is {MAX_THREAD_ID}: {thread_id[:40]!r}..."
        )
    unstorable = why_unstorable(thread_id)
    if unstorable:
        raise BadThreadId(f"the thread id has {unstorable}: {thread_id!r}")
    return thread_id


def why_unstorable(text: str) -> str | None:
    """What in a text PostgreSQL can't store; None if it can."""
    if "\0" in text:
        return "a NUL character, which PostgreSQL can't store"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return f"a lone surrogate at position {error.start}, which is no Unicode text"
    return None


def case_id(workflow: str, thread_id: str) -> UUID:
    """The id of the case: a UUIDv5 of the length-prefixed pair, so that no two pairs share one."""
    return uuid5(_CASES, f"{len(workflow)}:{workflow}{len(thread_id)}:{thread_id}")


def idempotency_key(run: UUID, seq: int, step: str) -> UUID:
    """The key of a step's outside call: the same on every attempt, another after rewind, fork and restart.

    seq is the checkpoint from which the step runs; step is its name as stored in the head, so a rename with
    `aliases` keeps the key.
    """
    return uuid5(run, f"{seq}:{step}")
