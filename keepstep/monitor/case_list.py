"""The page with the list of cases."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from keepstep.checkpoint import census
from keepstep.checkpoint.census import Census
from keepstep.checkpoint.reads import Page
from keepstep.monitor.handler import CasesHandler, Refused, no_case
from keepstep.steps.errors import BadCursor, BadFilter, BadStart
from keepstep.steps.keys import case_id
from keepstep.steps.moves import Status
from keepstep.steps.outcome import seconds_of

ROWS = 50
FIELDS = ("begins", "workflow", "status", "step", "tag", "older", "error")
_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(s|min|m|h|d)")
_SECONDS = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, kw_only=True)
class Listed:
    """All that the page shows."""

    page: Page
    census: Census
    workflows: list[str]
    broker: bool


class CaseList(CasesHandler):
    """Filters, counts by status, and a page of the newest cases."""

    async def get(self) -> None:
        """By the filters of the query."""
        given = {name: self.given(name).strip() for name in FIELDS}
        if self.get_query_arguments("status") and given["status"] not in (*Status, ""):
            raise Refused(400, "There is no such status.")
        case = _id(given["begins"])
        known = [] if case is None else await self.desk.ask(census.known, self.desk.client.db, [case])
        if known:
            self.redirect(self.reverse_url("keepstep_case", str(case)))
            return
        wrong = ""
        try:
            filters = _filters(given)
            listed = await self.desk.ask(self._look, given["workflow"] or None, filters, self.given("cursor") or None)
        except (BadFilter, BadStart, BadCursor) as error:
            wrong = str(error)
            self.set_status(400)
            listed = await self.desk.ask(self._look, None, {"begins": None}, None, rows=0)
        self.page("cases", listed=listed, given=given, wrong=wrong, statuses=list(Status), link=self._link,
                  first=not self.given("cursor"))  # fmt: skip

    def _look(self, workflow: str | None, filters: dict[str, Any], cursor: str | None, rows: int = ROWS) -> Listed:
        client = self.desk.client
        known = {*census.workflows(client.db), *(code.name for code in client.registry)}
        return Listed(
            page=client.list(workflow=workflow, cursor=cursor, limit=rows, **filters),
            census=census.census(client.db, workflow),
            workflows=sorted(known),
            broker=self.desk.broker_is_there(),
        )

    def _link(self, given: dict[str, str], **changed: str | None) -> str:
        """This page with these filters, and some of them changed."""
        query = {name: value for name, value in {**given, **changed}.items() if value}
        return str(self.reverse_url("keepstep_cases")) + (f"?{urlencode(query)}" if query else "")


class CaseByName(CasesHandler):
    """From a workflow's name and a thread id to the page of the case."""

    async def get(self) -> None:
        """Redirect; there may be no such case."""
        try:
            case = case_id(self.given("workflow"), self.given("thread_id"))
        except UnicodeEncodeError:
            no_case()
        if not await self.desk.ask(census.known, self.desk.client.db, [case]):
            no_case()
        self.redirect(self.reverse_url("keepstep_case", str(case)))


def _id(text: str) -> UUID | None:
    try:
        return UUID(text) if len(text) == 36 else None
    except ValueError:
        return None


def _filters(given: dict[str, str]) -> dict[str, Any]:
    """What was typed, as `Client.list` takes it. Raises BadFilter."""
    return {
        "begins": given["begins"] or None,
        "status": given["status"] or None,
        "step": given["step"] or None,
        "error": given["error"] or None,
        "tags": _tag(given["tag"]),
        "older_than": _span(given["older"]),
    }


def _tag(text: str) -> dict[str, str] | None:
    name, sign, value = text.partition("=")
    if text and not (name and sign):
        raise BadFilter("a tag is NAME=TEXT, such as tenant=acme.")
    return {name: value} if text else None


def _span(text: str) -> float | None:
    if not text:
        return None
    found = _SPAN.fullmatch(text)
    if found is None:
        raise BadFilter(f"{text[:40]!r} is no length of time: write 90s, 15min, 2h or 3d.")
    try:
        return seconds_of(float(found[1]) * _SECONDS[found[2]])
    except ValueError:
        raise BadFilter(f"{text[:40]!r} is too long: the most is three centuries.") from None
