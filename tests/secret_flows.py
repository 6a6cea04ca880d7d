"""A workflow with secret fields whose steps tell them to everybody."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel

from keepstep import Call, Retry, Secret, Workflow, wait_for


class Person(BaseModel):
    """Somebody with a number that nobody should see."""

    name: str
    number: Annotated[str, Secret]


class Private(BaseModel):
    """What a case of `telling` holds."""

    token: Annotated[str | None, Secret] = None
    pin: Annotated[int, Secret] = 0
    people: list[Person] = []
    answer: Person | None = None


telling = Workflow("telling", state=Private, retry=Retry(attempts=1))


@telling.step
def ask(_state: Private, _call: Call) -> Any:
    """Wait for a person."""
    return wait_for("answer", into="answer", payload=Person)


@telling.step
def blab(state: Private, call: Call) -> Any:
    """Log every secret, and raise with them; one of them was learnt only now."""
    state.token = f"{state.token}-renewed"
    call.log.info("the token is %s", state.token)
    raise RuntimeError(f"{state.token!r} {state.pin} of {state.people} and {state.answer} was refused")


ALL = [telling]
