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
    if "\0" in thread_id:
        raise BadThreadId(f"the thread id has a NUL character, which PostgreSQL can't store: {thread_id!r}")
    try:
        thread_id.encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadThreadId(
            f"the thread id has a lone surrogate at position {error.start}, which is no Unicode text: {thread_id!r}"
        ) from None
    return thread_id


def case_id(workflow: str, thread_id: str) -> UUID:
    """The id of the case: a UUIDv5 of the length-prefixed pair, so that no two pairs share one."""
    return uuid5(_CASES, f"{len(workflow)}:{workflow}{len(thread_id)}:{thread_id}")


def idempotency_key(run: UUID, seq: int, step: str) -> UUID:
    """The key of a step's outside call: the same on every attempt, another after rewind, fork and restart.

    seq is the checkpoint from which the step runs; step is its name as stored in the head, so a rename with
    `aliases` keeps the key.
    """
    return uuid5(run, f"{seq}:{step}")
