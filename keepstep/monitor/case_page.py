"""The page of one case, and what its script asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from keepstep.checkpoint import ledger, reads, timeline
from keepstep.checkpoint.delta import Operation
from keepstep.checkpoint.facts import facts
from keepstep.checkpoint.filters import MOST
from keepstep.checkpoint.ledger import RecordedCall
from keepstep.checkpoint.mask import Mask
from keepstep.checkpoint.reads import Case
from keepstep.checkpoint.timeline import Act, Relative, Sent, Stretch
from keepstep.checkpoint.why import Why, why
from keepstep.monitor import shown
from keepstep.monitor.bars import LEGEND, Chart, chart
from keepstep.monitor.fanned import Fanned, fanned
from keepstep.monitor.graph import Picture, picture
from keepstep.monitor.handler import CasesHandler, Refused, no_case
from keepstep.monitor.verbs import VERBS, offered
from keepstep.steps.errors import CheckpointDamaged, UnknownCheckpoint
from keepstep.steps.terms import DEFAULT_PRIORITY
from keepstep.workers.client import Client

OPERATIONS = 200
"""Changes of one checkpoint that are shown."""
LAST = 20
"""Items of a log that are shown; all are there for download."""


@dataclass(frozen=True, kw_only=True)
class View:
    """All that the page shows, without secrets. state, change: at checkpoint `at`; damage: why they can't be told.

    oldest: the first checkpoint that is kept.
    """

    case: Case
    why: Why
    waits: Sequence[dict[str, Any]]
    chart: Chart
    stretch: Stretch
    picture: Picture
    at: int
    oldest: int
    state: dict[str, Any]
    change: Sequence[Operation]
    more_changes: int
    damage: str
    calls: Sequence[RecordedCall]
    signals: Sequence[Sent]
    acts: Sequence[Act]
    parent: Relative | None
    fans: Sequence[Fanned]
    children: Sequence[Relative]
    version: str


class CasePage(CasesHandler):
    """One case."""

    async def get(self, name: str) -> None:
        """seq: the checkpoint whose state is shown. before: a stretch further back. scale: true or squeezed."""
        case = id_of(name)
        scale = {"true": False, "squeezed": True}.get(self.given("scale"))
        seq, before = self._seq("seq"), self._seq("before")
        view = await self.desk.ask(look, self.desk.client, case, seq=seq, before=before, squeezed=scale)
        broker = await self.desk.ask(self.desk.broker_is_there)
        done = VERBS.get(self.given("done"))
        self.page(
            "case",
            view=view,
            case=view.case,
            broker=broker,
            version=version_of(view.version, broker=broker),
            verbs=offered(view.case),
            done=done.done if done is not None else {"decided": "The decision was sent."}.get(self.given("done"), ""),
            unrung=self.given("unrung") == "1",
            legend=LEGEND,
            tasks=self.application.tasks_of(view.case),
            link=self._link,
            default_priority=DEFAULT_PRIORITY,
            live=before is None,
        )

    def _seq(self, name: str) -> int | None:
        text = self.given(name).strip()
        if not text:
            return None
        if not text.isascii() or not text.isdecimal() or len(text) > 9:
            raise Refused(400, "The number of a checkpoint is a whole number.")
        return int(text)

    def _link(self, **changed: object) -> str:
        """This page, with parts of its query changed."""
        kept = {name: self.given(name) for name in ("seq", "before", "scale")}
        query = urlencode({name: value for name, value in {**kept, **changed}.items() if value not in ("", None)})
        path = self.reverse_url("keepstep_case", self.path_args[0])
        return f"{path}?{query}" if query else path


class CaseVersion(CasesHandler):
    """What a page's script asks every few seconds: has the case changed?"""

    async def get(self, name: str) -> None:
        """A text that changes with the case."""
        found = await self.desk.ask(timeline.version, self.desk.client.db, id_of(name))
        if found is None:
            no_case()
        self.finish({"version": version_of(found, broker=await self.desk.ask(self.desk.broker_is_there))})


class CaseState(CasesHandler):
    """A whole state, for download."""

    async def get(self, name: str, seq: str) -> None:
        """As checkpoint `seq` left it."""
        case, at = id_of(name), int(seq)
        client = self.desk.client
        found = await self.desk.ask(reads.find, client.db, case)
        if found is None:
            no_case()
        state = await self.desk.ask(client.state, found.workflow, found.thread_id, seq=at)
        mask = await self.desk.ask(client.mask, found.workflow, found.thread_id)
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.set_header("Content-Disposition", f'attachment; filename="{case}-{at}.json"')
        self.finish(shown.pretty(mask.state(state), limit=MOST))


def version_of(case: str, *, broker: bool) -> str:
    """A text that changes with what a page shows."""
    return case if broker else f"{case}, without the broker"


def id_of(name: str) -> UUID:
    """The case's id in a path; Refused if it is none."""
    try:
        return UUID(name)
    except ValueError:
        no_case()


def look(
    client: Client, case: UUID, *, seq: int | None = None, before: int | None = None, squeezed: bool | None = None
) -> View:
    """Read all that the page shows. Raises Refused if there is no such case, UnknownCheckpoint."""
    db = client.db
    version, found = timeline.version(db, case), reads.find(db, case)
    if found is None or version is None:
        no_case()
    at = found.seq if seq is None else seq
    oldest = reads.oldest(db, case)
    if not oldest <= at <= found.seq:
        raise UnknownCheckpoint(found.workflow, found.thread_id, at, found.seq)
    mask = client.mask(found.workflow, found.thread_id)
    found = replace(found, reason=mask.json(found.reason), error=mask.json(found.error))
    waits = mask.json(reads.open_waits(db, case))
    stretch = _covered(mask, timeline.stretch(db, case, before=before))
    since = stretch.entries[0].seq if stretch.entries else 0
    code = next((workflow for workflow in client.registry if workflow.name == found.workflow), None)
    state, change, damage = _state(client, case, at, oldest)
    return View(
        case=found,
        why=mask.why(why(facts(db, found, client.nodes()))),
        waits=waits,
        chart=chart(found, stretch, timeline.now(db, case), latest=before is None, squeezed=squeezed),
        stretch=stretch,
        picture=picture(code, timeline.path(db, case), step=found.step, status=found.status, seq=found.seq),
        at=at,
        oldest=oldest,
        state=mask.state(state),
        change=mask.operations(change[:OPERATIONS]),
        more_changes=max(0, len(change) - OPERATIONS),
        damage=damage,
        calls=ledger.recorded(db, found, since=max(0, since - 1), until=MOST if before is None else before),
        signals=[replace(one, payload=mask.payload(one.name, one.payload)) for one in timeline.signals(db, case)],
        acts=[replace(one, reason=one.reason and mask.text(one.reason)) for one in timeline.acts(db, case)],
        parent=timeline.parent(db, case),
        fans=fanned(db, case, mask),
        children=timeline.children(db, case),
        version=version,
    )


def _covered(mask: Mask, stretch: Stretch) -> Stretch:
    """The same without the case's secrets in the errors."""
    return replace(stretch, tried=[replace(one, error=mask.error(one.error)) for one in stretch.tried])


def _state(client: Client, case: UUID, at: int, oldest: int) -> tuple[dict[str, Any], list[Operation], str]:
    """The state at a checkpoint, what it changed, and why that can't be said. oldest: the first that is kept."""
    try:
        state = reads.state_at(client.db, case, at, last=LAST)
        return state, reads.changes(client.db, case, at - 1, at) if at > oldest else [], ""
    except CheckpointDamaged as error:
        return {}, [], str(error)


__all__ = ["CasePage", "CaseState", "CaseVersion", "id_of", "look"]
