"""Votes: where several people must agree, each is counted once, and all of them must say the same.

They are compared, and counted ones are kept, as the question takes them: an older one is upcast before.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from keepstep.checkpoint import codec
from keepstep.checkpoint.database import Row
from keepstep.checkpoint.mask import has_secrets
from keepstep.checkpoint.sql import signals as sql
from keepstep.steps.approval import agree, refuses
from keepstep.steps.errors import AlreadyDecided, BadSignal
from keepstep.steps.sameness import same


def was_given(connection: sa.Connection, head: Row, wait: Row, actor: str | None, payload: Any) -> bool:
    """Whether this very vote was counted before, in a wait for several people.

    Raises BadSignal if nobody says whose it is, and AlreadyDecided if the same person, or the others, have said
    something else. A refusal may differ from what others said: it decides.
    """
    if actor is None:
        raise BadSignal(
            f"{head.workflow}/{head.thread_id}: {wait.name!r} wants {wait.approvers} different actors: give actor="
        )
    named = {"id": head.id, "name": wait.name, "wait_seq": wait.seq}
    own = connection.execute(sql.SAME_VOTER, named | {"actor": actor}).first()
    if own is not None and same(codec.decode(own.payload), payload):
        return True
    first = connection.execute(sql.FIRST_VOTE, named).first() if own is None else own
    if first is not None and (own is not None or _differs(first, payload)):
        hidden = has_secrets(connection, head.id)
        raise AlreadyDecided(head.workflow, head.thread_id, wait.name, codec.decode(first.payload), hidden=hidden)
    return False


def why_not_counted(connection: sa.Connection, head: Row, match: Row, payload: Any) -> str | None:
    """Why a decision that came before its question can't be one of several votes; None if it can."""
    if match.approvers <= 1:
        return None
    if match.actor is None:
        return f"{match.approvers} different actors are wanted, and nobody said who this one is"
    first = connection.execute(sql.FIRST_VOTE, {"id": head.id, "name": match.name, "wait_seq": match.wait_seq}).first()
    return "it differs from what the first one said" if first is not None and _differs(first, payload) else None


def more_needed(connection: sa.Connection, head: Row, match: Row, payload: Any, *, upcast: bool) -> bool:
    """Count an agreement; whether others have to come. A refusal isn't counted, it decides.

    upcast: whether it was sent by older code, and is kept as the question takes it.
    """
    if match.approvers <= 1 or refuses(payload):
        return False
    vote = {"id": head.id, "name": match.name, "signal": match.signal, "wait_seq": match.wait_seq}
    vote |= {"upcast": codec.encode(payload) if upcast else None, "version": head.schema_version}
    counted = connection.execute(sql.COUNT, vote).scalar_one()
    return bool(counted < match.approvers)


def votes_of(match: Row, payload: Any) -> int | None:
    """The wait whose counted votes made this decision, together with the one at hand; None if it needed no others."""
    return None if match.approvers <= 1 or refuses(payload) else match.wait_seq


def _differs(first: Row, payload: Any) -> bool:
    return not refuses(payload) and not agree(codec.decode(first.payload), payload)
