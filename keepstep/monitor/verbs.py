"""The verbs as pages have them: what each does, in words, which cases take it, and how a form becomes a call."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from keepstep.checkpoint.reads import Case
from keepstep.checkpoint.steered import Steered, refusal
from keepstep.workers.client import Client


class BadInput(Exception):
    """A field of the form can't be what was typed; a sentence."""


Given = Mapping[str, str]
Said = Mapping[str, Any]
Act = Callable[[Client, Case, Given, Said], Steered]


@dataclass(frozen=True, kw_only=True)
class Verb:
    """name: as in the URL. label: on the button. says: what it does. done: what a page says afterwards.

    asks: the fields of its form besides the actor and the reason. renews: it may make new idempotency keys, so effects
    may repeat. grave: its button looks like it.
    """

    name: str
    label: str
    says: str
    done: str
    act: Act
    asks: tuple[str, ...] = ()
    renews: bool = False
    grave: bool = False

    def legal(self, case: Case) -> bool:
        """Whether the case's status takes it."""
        return self.name == "fork" or refusal("", "", self.name, case.status, paused=case.paused) is None


def _retry(client: Client, case: Case, given: Given, said: Said) -> Steered:
    new, repeat = given.get("new_key") == "on", given.get("repeat_effects") == "on"
    return client.retry(case.workflow, case.thread_id, new_key=new, repeat_effects=repeat, **said)


def _skip(client: Client, case: Case, given: Given, said: Said) -> Steered:
    update = _object(given.get("update", ""))
    to, seen = given.get("to", "").strip() or None, _number(given, "seen")
    return client.skip(case.workflow, case.thread_id, update=update, to=to, seen=seen, **said)


def _rewind(client: Client, case: Case, given: Given, said: Said) -> Steered:
    to, seen, repeat = _number(given, "seq"), _number(given, "seen"), given.get("repeat_effects") == "on"
    return client.rewind(case.workflow, case.thread_id, to=to, seen=seen, repeat_effects=repeat, **said)


def _fork(client: Client, case: Case, given: Given, said: Said) -> Steered:
    at, name, repeat = _number(given, "seq"), given.get("new_thread_id", ""), given.get("repeat_effects") == "on"
    return client.fork(case.workflow, case.thread_id, at=at, new_thread_id=name, repeat_effects=repeat, **said)


def _restart(client: Client, case: Case, given: Given, said: Said) -> Steered:
    seen, repeat = _number(given, "seen"), given.get("repeat_effects") == "on"
    return client.restart(case.workflow, case.thread_id, seen=seen, repeat_effects=repeat, **said)


def _plainly(name: str) -> Act:
    def act(client: Client, case: Case, _given: Given, said: Said) -> Steered:
        steered: Steered = getattr(client, name)(case.workflow, case.thread_id, **said)
        return steered

    return act


def _number(given: Given, name: str) -> int:
    text = given.get(name, "").strip()
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise BadInput("Give the number of a checkpoint, as the timeline shows them.")
    return int(text)


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise BadInput(f"The changes are not JSON: {str(error)[:100]}.") from None
    if not isinstance(found, dict):
        raise BadInput('The changes are a JSON object by field, such as {"score": 710}.')
    return found


VERBS = {
    verb.name: verb
    for verb in (
        Verb(
            name="retry",
            label="Retry",
            says="The same step runs again, with all its retries anew, under the same idempotency key.",
            done="The step is tried again.",
            act=_retry,
            asks=("new_key",),
            renews=True,
        ),
        Verb(
            name="resume",
            label="Resume",
            says="The pause ends, and the case goes on where it stands.",
            done="The case goes on.",
            act=_plainly("resume"),
        ),
        Verb(
            name="pause",
            label="Pause",
            says="The step that runs may end, and its result is kept; no other step begins until the case is resumed.",
            done="The case is paused.",
            act=_plainly("pause"),
        ),
        Verb(
            name="skip",
            label="Skip",
            says="The case goes on behind the step, or the wait, that it stands at, as if that had ended with your "
            "changes.",
            done="The step was skipped.",
            act=_skip,
            asks=("update", "to"),
        ),
        Verb(
            name="rewind",
            label="Rewind",
            says="The case goes on from an earlier checkpoint, by a new one; the past stays in its history. Steps that "
            "run again have new idempotency keys.",
            done="The case was rewound.",
            act=_rewind,
            asks=("seq",),
            renews=True,
        ),
        Verb(
            name="fork",
            label="Fork",
            says="Another case starts from a checkpoint of this one, which stays as it is.",
            done="This is the new case.",
            act=_fork,
            asks=("seq", "new_thread_id"),
            renews=True,
        ),
        Verb(
            name="restart",
            label="Restart",
            says="The case begins again with what was sent at its start, by today's code, with new idempotency keys.",
            done="The case begins again.",
            act=_restart,
            renews=True,
            grave=True,
        ),
        Verb(
            name="cancel",
            label="Cancel",
            says="The case ends as cancelled. A step that runs is told; its late result is kept, but changes nothing.",
            done="The case was cancelled.",
            act=_plainly("cancel"),
            grave=True,
        ),
    )
}
"""In the order of their buttons."""


def offered(case: Case) -> list[Verb]:
    """The verbs that the case takes now."""
    return [verb for verb in VERBS.values() if verb.legal(case)]
