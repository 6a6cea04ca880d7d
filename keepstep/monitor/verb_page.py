"""A verb's page: what it will do, a form that confirms it, and the doing."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from keepstep.checkpoint import reads
from keepstep.checkpoint.reads import Case
from keepstep.checkpoint.steered import Steered
from keepstep.monitor.case_page import id_of
from keepstep.monitor.handler import CasesHandler, Refused, no_case
from keepstep.monitor.verbs import VERBS, BadInput, Verb
from keepstep.steps.errors import DatabaseUnavailable, EffectsWouldRepeat, KeepstepError, UnknownCase
from keepstep.steps.keys import case_id

FIELDS = ("actor", "reason", "seq", "seen", "new_thread_id", "new_key", "update", "to", "repeat_effects")


class VerbPage(CasesHandler):
    """One verb for one case."""

    async def get(self, name: str, verb_name: str) -> None:
        """Say what it will do, and ask who wants it, and why."""
        if not self.may_write:
            raise Refused(403, "This Flower is read-only.")
        verb, case = VERBS[verb_name], await self._case(id_of(name))
        given = {field: self.given(field) for field in FIELDS} | {"seen": str(case.seq)}
        given["seq"] = given["seq"] or str(max(0, case.seq - 1))
        self._ask(verb, case, given)

    async def post(self, name: str, verb_name: str) -> None:
        """Do it, and show the case; or say why not, with what was typed."""
        verb, case = VERBS[verb_name], await self._case(id_of(name))
        given = {field: self.given(field) for field in FIELDS}
        try:
            said = {"actor": self.actor, "reason": given["reason"].strip() or _no_reason()}
            steered: Steered = await self.desk.ask(verb.act, self.desk.client, case, given, said)
        except EffectsWouldRepeat as error:
            self._ask(verb, case, given, effects=error.effects)
        except BadInput as error:
            self._ask(verb, case, given, wrong=str(error))
        except Refused as error:
            self._ask(verb, case, given, wrong=error.sentence)
        except (DatabaseUnavailable, UnknownCase):
            raise
        except KeepstepError as error:
            mask = await self.desk.ask(self.desk.client.mask, case.workflow, case.thread_id)
            self._ask(verb, case, given, wrong=mask.text(str(error)))
        else:
            self._show(verb, steered)

    def _ask(
        self,
        verb: Verb,
        case: Case,
        given: dict[str, Any],
        *,
        effects: Any = (),
        wrong: str | None = None,
    ) -> None:
        if wrong is not None:
            self.set_status(409)
        self.page("verb", verb=verb, case=case, given=given, effects=effects, wrong=wrong)

    def _show(self, verb: Verb, steered: Steered) -> None:
        told = {"done": verb.name}
        if steered.ring is not None and not steered.rung:
            told["unrung"] = "1"
        case = case_id(steered.workflow, steered.thread_id)
        self.redirect(f"{self.reverse_url('keepstep_case', str(case))}?{urlencode(told)}", status=303)

    async def _case(self, case: UUID) -> Case:
        found = await self.desk.ask(reads.find, self.desk.client.db, case)
        return found if found is not None else no_case()


def _no_reason() -> str:
    raise Refused(400, "Say why: the case's history keeps it.")
