"""The inbox of decisions that cases wait for, and the page on which one is made."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from keepstep.checkpoint import census, reads, waits
from keepstep.checkpoint.signals import Receipt
from keepstep.checkpoint.waits import Asked, Place
from keepstep.monitor import forms
from keepstep.monitor.case_page import id_of
from keepstep.monitor.forms import BadForm
from keepstep.monitor.handler import CasesHandler, Refused, no_case
from keepstep.steps.errors import (
    AlreadyDecided,
    BadCursor,
    BadPayload,
    BadSignal,
    CaseFinished,
    StaleDecision,
)

ROWS = 30


class InboxPage(CasesHandler):
    """What people are asked, the oldest first."""

    async def get(self) -> None:
        """A page of it."""
        workflow = self.given("workflow").strip() or None
        client, behind = self.desk.client, _place(self.given("cursor"))
        found = await self.desk.ask(self._asked, workflow, behind)
        known = await self.desk.ask(census.workflows, client.db)
        cursor = _cursor(found[ROWS - 1]) if len(found) > ROWS else None
        broker = await self.desk.ask(self.desk.broker_is_there)
        self.page("inbox", found=found[:ROWS], workflow=workflow or "", workflows=known, first=behind is None,
                  onward=cursor and self._onward(workflow, cursor), broker=broker)  # fmt: skip

    def _asked(self, workflow: str | None, behind: Place | None) -> list[Asked]:
        client = self.desk.client
        return [
            replace(asked, prompt=client.mask(asked.workflow, asked.thread_id).json(asked.prompt))
            for asked in waits.inbox(client.db, workflow=workflow, limit=ROWS + 1, behind=behind)
        ]

    def _onward(self, workflow: str | None, cursor: str) -> str:
        query = {"cursor": cursor} | ({"workflow": workflow} if workflow else {})
        return f"{self.reverse_url('keepstep_inbox')}?{urlencode(query)}"


class DecisionPage(CasesHandler):
    """One decision: what is asked, and a form for the answer."""

    async def get(self, name: str, signal: str) -> None:
        """Show what is asked now."""
        if not self.may_write:
            raise Refused(403, "This Flower is read-only.")
        await self._ask(id_of(name), signal, {}, {})

    async def post(self, name: str, signal: str) -> None:
        """Send the answer; or say why it can't be one, with what was typed."""
        case = id_of(name)
        names, wait = await self._waited(case, signal)
        shown = forms.fields(wait["schema"])
        given = {field.name: self.given(field.name) for field in shown} | {"actor": self.given("actor")}
        try:
            actor = self.actor
            payload = _signed(forms.payload(shown, given), wait["schema"], actor)
            receipt: Receipt = await self.desk.ask(
                self.desk.client.send if wait["stream"] else self.desk.client.signal,
                *names,
                signal,
                payload,
                actor=actor,
                **({} if wait["stream"] else {"digest": self.given("digest") or wait["digest"]}),
            )
        except BadForm as error:
            await self._ask(case, signal, given, error.wrong)
        except Refused as error:
            await self._ask(case, signal, given, {"actor": error.sentence})
        except (BadPayload, BadSignal, AlreadyDecided, CaseFinished, StaleDecision) as error:
            await self._ask(case, signal, given, {"": str(error)})
        else:
            self._show(case, receipt)

    async def _ask(self, case: UUID, signal: str, given: dict[str, str], wrong: dict[str, str]) -> None:
        names, wait = await self._waited(case, signal)
        mask = await self.desk.ask(self.desk.client.mask, *names)
        wait, wrong = {**wait, "prompt": mask.json(wait["prompt"])}, mask.json(wrong)
        if wrong:
            self.set_status(409)
        self.page("decision", case_id=case, workflow=names[0], thread_id=names[1], wait=wait, given=given, wrong=wrong,
                  fields=forms.fields(wait["schema"]))  # fmt: skip

    async def _waited(self, case: UUID, signal: str) -> tuple[tuple[str, str], dict[str, Any]]:
        db = self.desk.client.db
        names = await self.desk.ask(census.names, db, case)
        if names is None:
            no_case()
        for wait in await self.desk.ask(reads.open_waits, db, case):
            if wait["name"] == signal:
                return names, wait
        raise Refused(409, "This isn't asked any more: it was answered, its deadline has passed, or the case ended.")

    def _show(self, case: UUID, receipt: Receipt) -> None:
        told = {"done": "decided"}
        if receipt.ring is not None and not receipt.rung:
            told["unrung"] = "1"
        self.redirect(f"{self.reverse_url('keepstep_case', str(case))}?{urlencode(told)}", status=303)


def _signed(payload: Any, schema: dict[str, Any] | None, actor: str) -> Any:
    """Who decides is who signed in, in a payload that has a field for it."""
    if isinstance(payload, dict) and schema is not None and forms.SIGNED in _properties(schema):
        return {**payload, forms.SIGNED: actor}
    return payload


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    part, _ = forms.plain(schema, schema.get("$defs", {}))
    found = part.get("properties")
    return found if isinstance(found, dict) else {}


def _cursor(asked: Asked) -> str:
    return urlsafe_b64encode(f"{asked.opened_at.isoformat()} {asked.id} {asked.name}".encode()).decode().rstrip("=")


def _place(cursor: str) -> Place | None:
    if not cursor:
        return None
    try:
        at, case, name = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode().split(" ", 2)
        return datetime.fromisoformat(at), UUID(case), name
    except (ValueError, TypeError):
        raise BadCursor("This is no place in the inbox: go to its first page.") from None
