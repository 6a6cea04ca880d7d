"""Workflows whose states have logs."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel

from keepstep import Call, Log, Retry, Secret, Workflow, fan_out, finish, goto, start_child, wait_for
from tests.support import trace

WORDS = "words that fill a line and say nothing " * 20


class Message(BaseModel):
    """number: of the step that appended it."""

    number: int
    text: str = ""
    token: Annotated[str, Secret] = ""


class Chat(BaseModel):
    """until: how many messages there are to be. read: what a step found when it looked."""

    until: int = 40
    messages: Log[Message] = Log()
    read: list[int] = []
    child: dict[str, Any] | None = None
    parts: list[int] = []


def message(number: int) -> Message:
    return Message(number=number, text=f"{number} {WORDS}")


def numbers(state: dict[str, Any]) -> list[int]:
    """The messages of a state as JSON, by their numbers."""
    return [one["number"] for one in state["messages"]]


def _one_more(workflow: Workflow, name: str = "talk") -> None:
    @workflow.step(name=name)
    def talk(state: Chat, call: Call) -> Any:
        trace.write(call.thread_id, call.step, call.key, call.attempt)
        state.messages.append(message(len(state.messages)))
        return goto(name) if len(state.messages) < state.until else None


talking = Workflow("talking", state=Chat, retention=timedelta(days=1), retry=Retry(attempts=1))
_one_more(talking)


@talking.step
def listen(state: Chat, call: Call) -> Any:
    """Read all of it."""
    return {"read": [one.number for one in state.messages]}


quick = Workflow("quick_talk", state=Chat, inline=timedelta(seconds=30))
_one_more(quick)

endless = Workflow("endless", state=Chat, keep_checkpoints=20)
_one_more(endless)

asking = Workflow("asking", state=Chat)
_one_more(asking)


@asking.step
def ask(state: Chat, call: Call) -> Any:
    return wait_for("more", into="child")


@asking.step
def answered(state: Chat, call: Call) -> Any:
    return {"read": [one.number for one in state.messages[-3:]]}


booking = Workflow("booking", state=Chat, retry=Retry(attempts=1))


@booking.step(transactional=True)
def book(state: Chat, call: Call) -> Any:
    state.messages.extend(message(n) for n in range(state.until))
    if state.read:
        raise RuntimeError("nothing of it happened")
    return None


parent = Workflow("parent", state=Chat)
_one_more(parent)


@parent.step
def fan(state: Chat, call: Call) -> Any:
    return fan_out({"whole": "count", "own": ("count", {"messages": state.messages})}, into="child")


@parent.step
def ask_child(state: Chat, call: Call) -> Any:
    child = Chat(until=state.until + 5, messages=state.messages, read=list(state.child.values()) if state.child else [])
    return start_child(talking, child, into="child")


@parent.step
def gathered(state: Chat, call: Call) -> Any:
    assert state.child is not None
    return {"parts": [one["number"] for one in state.child["messages"]]}


@parent.branch
def count(item: Any, call: Call) -> int:
    return len(item["messages"])


telling = Workflow("telling", state=Chat, retry=Retry(attempts=1))


@telling.step
def tell(state: Chat, call: Call) -> Any:
    if len(state.messages) < state.until:
        number = len(state.messages)
        state.messages.append(Message(number=number, text=WORDS, token=f"geheim-{number}"))
        return goto("tell")
    call.log.info("the token is %s", state.messages[3].token)
    raise RuntimeError(f"{state.messages[5].token} was refused")


clumsy = Workflow("clumsy", state=Chat, retry=Retry(attempts=1))
_one_more(clumsy)


@clumsy.step
def change(state: Chat, call: Call) -> Any:
    state.messages[2].text = "something else"
    return finish()


remembering = Workflow("remembering", state=Chat, retry=Retry(attempts=2))
_one_more(remembering)


@remembering.step
def once(state: Chat, call: Call) -> Any:
    answer = call.once("model", lambda messages: [one.number for one in messages][-2:], state.messages)
    if call.attempt == 1:
        raise RuntimeError("again")
    return {"read": answer}


async_talk = Workflow("async_talk", state=Chat)


@async_talk.step
async def talk(state: Chat, call: Call) -> Any:
    state.messages.append(message(len(state.messages)))
    return goto("talk", read=[state.messages[0].number]) if len(state.messages) < state.until else None


ALL = [
    talking,
    quick,
    endless,
    asking,
    booking,
    parent,
    telling,
    clumsy,
    remembering,
    async_talk,
]
