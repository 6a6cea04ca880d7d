"""What may be shown of a case with secret fields: its states without them, everybody's words without their values.

A state is hidden by its fields. What else may hold a value of them is covered wherever it is found; and where nobody
can tell what a value is (a recorded result, a large value, a signal that no wait has named yet), all of it is hidden.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from keepstep.checkpoint import codec
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.reads import Event
from keepstep.checkpoint.sql import secrets as sql
from keepstep.checkpoint.why import Why
from keepstep.steps.secret import HIDDEN, Cover, hide, hide_operations, logs_with

CHUNK = 500
"""Rows that are fetched at a time."""


class Mask:
    """secrets: JSON pointers of the secret fields; none hides nothing. fields: where the case's signals go, by name."""

    def __init__(self, secrets: Sequence[str], fields: dict[str, str | None], cover: Cover):
        self._secrets, self._fields, self._cover = secrets, fields, cover

    @classmethod
    def of(cls, connection: sa.Connection, case: UUID, more: Sequence[str] = ()) -> Mask:
        """The mask of a case. more: secrets that today's code declares, and the case may not know of."""
        row = connection.execute(sql.SECRETS, {"id": case}).first()
        secrets = tuple(dict.fromkeys([*((row.secrets if row else None) or ()), *more]))
        if not secrets:
            return cls((), {}, Cover(None, ()))
        fields = {row.name: row.into_field for row in connection.execute(sql.WAITED_FOR, {"id": case})}
        written = connection.execute(sql.PAYLOADS, {"id": case})
        parts = (part for row in written.yield_per(CHUNK) for part in _parts(codec.decode(row.payload)))
        cover = Cover.gather(secrets, chain(parts, _sealed(connection, case, logs_with(secrets))))
        return cls(secrets, fields, cover)

    def state(self, state: Any) -> Any:
        """A state of the case."""
        return self.json(hide(state, self._secrets))

    def operations(self, operations: Any) -> Any:
        """Operations on its state."""
        return self.json(hide_operations(operations, self._secrets))

    def payload(self, name: str, payload: Any) -> Any:
        """What the signal of this name brought."""
        if not self._secrets:
            return payload
        if name not in self._fields:
            return HIDDEN
        field = self._fields[name]
        return self.json(payload if field is None else hide(payload, self._secrets, f"/{field}"))

    def json(self, value: Any) -> Any:
        """Anything else that is JSON: an error, a prompt."""
        return self._cover.json(value)

    def error(self, error: Any) -> Any:
        """What an attempt left behind."""
        return self.json(self._error(error)) if self._secrets else error

    def why(self, told: Why) -> Why:
        """Where the case stands, in words."""
        details, commands = tuple(map(self.text, told.details)), tuple(map(self.text, told.commands))
        return Why(sentence=self.text(told.sentence), details=details, moves=self.text(told.moves), commands=commands)

    def text(self, text: str) -> str:
        """Anybody's words."""
        return self._cover.text(text)

    def event(self, event: Event) -> Event:
        """A line of its history."""
        if not self._secrets:
            return event
        detail = dict(event.detail)
        if "payload" in detail:
            detail["payload"] = self.payload(event.step, detail["payload"])
        if detail.get("error"):
            detail["error"] = self._error(detail["error"])
        return replace(event, detail=self.json(detail))

    def row(self, table: str, row: dict[str, Any]) -> dict[str, Any]:
        """A row of a table, as `export` writes it."""
        if not self._secrets:
            return row
        row = dict(row)
        if table == "cases":
            row["input"] = hide(row["input"], self._secrets)
        elif table == "checkpoints":
            row["payload"] = (hide if row["is_snapshot"] else hide_operations)(row["payload"], self._secrets)
        elif table == "signals":
            row["payload"] = self.payload(row["name"], row["payload"])
        elif table == "branches":  # what a step made of the state, secrets and all
            row["payload"] = row["input"] = HIDDEN
        elif table == "blobs":
            row["value"] = HIDDEN
        elif table == "calls":
            row["result"] = row["result"] and HIDDEN
        elif table == "attempts":
            row["error"] = self._error(row["error"])
        shown: dict[str, Any] = self.json(row)
        return shown

    def _error(self, error: Any) -> Any:
        """An attempt's error; a late one holds what it changed, or what a call returned."""
        if not isinstance(error, dict):
            return error
        error = dict(error)
        if "result" in error:
            error["result"] = HIDDEN
        if "change" in error:
            error["change"] = hide_operations(error["change"], self._secrets)
        return error


def mask(db: Database, case: UUID, more: Sequence[str] = ()) -> Mask:
    """The mask of a case, in a transaction of its own."""
    with db.snapshot() as connection:
        return Mask.of(connection, case, more)


def has_secrets(connection: sa.Connection, case: UUID) -> bool:
    """Whether the case has secret fields."""
    row = connection.execute(sql.SECRETS, {"id": case}).first()
    return bool(row is not None and row.secrets)


def _sealed(connection: sa.Connection, case: UUID, logs: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """The items of logs that are in chunks, of which nobody says here whose they are."""
    if logs:
        for row in connection.execute(sql.CHUNKS, {"id": case}).yield_per(CHUNK):
            items = codec.decode(row.value)
            yield from ((log, items) for log in logs)


def _parts(payload: Any) -> Iterator[tuple[str, Any]]:
    """The values in a checkpoint, each with where it stands in the state."""
    if not isinstance(payload, list):
        yield "", payload
        return
    for one in payload:
        yield one.get("path", ""), one.get("value")
