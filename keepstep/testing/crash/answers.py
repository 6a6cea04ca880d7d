"""Answers what cases wait for, as the people and systems would that the workflow asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from keepstep.checkpoint.database import Database
from keepstep.steps.errors import AlreadyDecided, CaseFinished
from keepstep.testing.crash.facts import FAMILY
from keepstep.workers.client import Client

Signals = Mapping[str, Any] | Sequence[tuple[str, Any]]
"""Payloads by signal name; or pairs, in the order in which a case asks for the same name several times."""

_OPEN = sa.text(f"""{FAMILY}
select w.case_id, w.seq, w.name, w.stream, w.approvers, w.deadline is null as for_ever, k.workflow, k.thread_id
  from family f
  join keepstep.waits w on w.case_id = f.id
  join keepstep.heads h on h.id = w.case_id and h.status = 'waiting'
  join keepstep.cases k on k.id = w.case_id
 where w.fate is null
 order by w.opened_at, w.name limit 1000
""")


class Answers:
    """What is sent to the cases whose thread ids begin with `prefix`, and to their branches."""

    def __init__(self, db: Database, client: Client, signals: Signals, prefix: str):
        self._db, self._client, self._prefix = db, client, prefix
        pairs = signals.items() if isinstance(signals, Mapping) else signals
        self._payloads: dict[str, list[Any]] = {}
        for name, payload in pairs:
            self._payloads.setdefault(name, []).append(payload)
        self._asked: Counter[tuple[UUID, str]] = Counter()
        self._answered: set[tuple[UUID, int, str]] = set()

    def give(self) -> int:
        """Answer what is asked and hasn't been answered; how many answers were sent."""
        sent = 0
        for row in self._db.all(_OPEN, {"prefix": self._prefix}):
            question = (row.case_id, row.seq, row.name)
            if question in self._answered or row.name not in self._payloads:
                continue
            self._answered.add(question)
            self._send(row, self._payload(row))
            sent += 1
        return sent

    def unanswerable(self) -> list[str]:
        """What is waited for without a deadline, and no signal was given for, as sentences."""
        rows = self._db.all(_OPEN, {"prefix": self._prefix})
        return [f"it waits for {r.name!r} for ever" for r in rows if r.for_ever and r.name not in self._payloads]

    def _payload(self, row: sa.Row[Any]) -> Any:
        """The next one of this name for this case; after the last one, that again."""
        given = self._payloads[row.name]
        number = self._asked[row.case_id, row.name]
        self._asked[row.case_id, row.name] += 1
        payload = given[min(number, len(given) - 1)]
        return payload(row.thread_id) if callable(payload) else payload

    def _send(self, row: sa.Row[Any], payload: Any) -> None:
        try:
            if row.stream:
                self._client.send(row.workflow, row.thread_id, row.name, payload)
                return
            for number in range(1, row.approvers + 1):
                self._client.signal(row.workflow, row.thread_id, row.name, payload, actor=f"crash test {number}")
        except (AlreadyDecided, CaseFinished):  # a refusal decides at once, and so does another wait of the same group
            return
