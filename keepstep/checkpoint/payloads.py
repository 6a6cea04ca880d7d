"""Does a payload fit what a case waits for? By the stored JSON Schema, and by the workflow's code if it is loaded."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import Any, Protocol
from uuid import UUID

import jsonschema
import sqlalchemy as sa
from pydantic import TypeAdapter, ValidationError
from referencing.exceptions import Unresolvable

from keepstep.checkpoint import codec
from keepstep.checkpoint.blobs import fetching, state_of
from keepstep.checkpoint.database import Row
from keepstep.checkpoint.sql import reads
from keepstep.steps.chunks import MARK, Fetch, is_stored
from keepstep.steps.errors import UpcastFailed


class Payloads(Protocol):
    """What the loaded code knows of payloads; of a workflow that isn't loaded, nothing."""

    def version(self, workflow: str) -> int | None:
        """The workflow's schema version; None if it isn't loaded."""

    def fits(
        self,
        workflow: str,
        field: str | None,
        payload: Any,
        version: int,
        state: Callable[[], Mapping[str, Any]],
        fetch: Fetch,
    ) -> str | None:
        """Why the payload can't be that field of a state of this version; None if it can, or if nobody can tell here.

        state: reads the case's state; asked for only if the version is an older one. fetch: reads that state's logs.
        """

    def upcast_payload(self, workflow: str, signal: str, payload: Any, version: int, to: int) -> Any:
        """The payload as whoever asked in version `to` would have it. Raises UpcastFailed."""

    def upcast_result(self, workflow: str, step: str, result: Any, version: int) -> Any:
        """What a branch of this step, or a child, came to, as the loaded code has it. Raises UpcastFailed."""

    def with_field(
        self, workflow: str, step: str, state: Mapping[str, Any], version: int, field: str, value: Any, fetch: Fetch
    ) -> Mapping[str, Any]:
        """The state of a case at this step, as the loaded code has it, with this value in the field.

        fetch: reads the state's logs. Raises BadState if it can't be loaded.
        """


class Unchecked:
    """A sender without any workflow's code: the stored schema alone decides."""

    def version(self, _workflow: str) -> int | None:
        return None

    def fits(self, _workflow: str, _field: str | None, _payload: Any, *_: Any) -> str | None:
        return None

    def upcast_payload(self, _workflow: str, _signal: str, payload: Any, _version: int, _to: int) -> Any:
        return payload

    def upcast_result(self, _workflow: str, _step: str, result: Any, _version: int) -> Any:
        return result

    def with_field(
        self, _workflow: str, _step: str, state: Mapping[str, Any], _version: int, field: str, value: Any, _fetch: Fetch
    ) -> Mapping[str, Any]:
        return {**state, field: value}


UNCHECKED: Payloads = Unchecked()


def fitted(
    connection: sa.Connection, head: Row, seq: int, wait: Row, payload: Any, version: int, code: Payloads
) -> tuple[Any, str | None]:
    """The payload as this wait takes it, and why it can't take it; None if it can.

    version: of the payload. What was asked is answered in the version that it was asked in, which is the head's: the
    whole state is upcast afterwards, with the answer in it.
    """

    def state() -> Mapping[str, Any]:
        chain = connection.execute(reads.CHAIN, {"id": head.id, "seq": seq}).one().chain
        return state_of(connection.execute, head.id, chain, seq)

    if version < head.schema_version:
        try:
            payload = code.upcast_payload(head.workflow, wait.name, payload, version, head.schema_version)
        except UpcastFailed as error:
            return payload, str(error)
    if is_stored(payload):
        return payload, f"{MARK!r} is keepstep's own"
    reason = misfit(wait.payload_schema, payload)
    fetch = fetching(connection.execute, head.id)
    return payload, reason or code.fits(head.workflow, wait.into_field, payload, head.schema_version, state, fetch)


def can_tell(code: Payloads, head: Row, version: int) -> bool:
    """Whether this process may judge a payload of that version: an older one wants code as new as the case's."""
    of_the_case: int = head.schema_version
    return version >= of_the_case or (code.version(head.workflow) or 0) >= of_the_case


_FORMATS = {"date-time": datetime, "date": date, "time": time, "duration": timedelta, "uuid": UUID}


def misfit(schema: str | None, payload: Any) -> str | None:
    """Why the payload doesn't fit the stored JSON Schema; None if it does, or if the schema itself can't be used.

    A schema may hold what only pydantic understands (a pattern of its own regular expressions): such a one refuses
    nobody, and the workflow's code has the last word.
    """
    if schema is None:
        return None
    try:
        validator = jsonschema.Draft202012Validator(codec.decode(schema), format_checker=_format_checker())
        error = next(iter(validator.iter_errors(payload)), None)
    except (re.error, RecursionError, Unresolvable, jsonschema.exceptions.SchemaError, ValueError):
        return None
    return None if error is None else f"{error.json_path}: {error.message}"[:500]


@lru_cache(maxsize=1)
def _format_checker() -> jsonschema.FormatChecker:
    """The formats that pydantic writes into a schema, checked by pydantic."""
    checker = jsonschema.FormatChecker(formats=())
    for name, kind in _FORMATS.items():
        checker.checks(name, raises=ValidationError)(_parses(TypeAdapter(kind)))
    return checker


def _parses(adapter: TypeAdapter[Any]) -> Callable[[object], bool]:
    def check(value: object) -> bool:
        if isinstance(value, str):
            adapter.validate_python(value)
        return True

    return check
