"""The agent's model: a script, or any that speaks OpenAI's protocol.

KEEPSTEP_AGENT_MODEL names a real one (`gpt-4.1-mini`, or whatever the server at OPENAI_BASE_URL has); the client reads
OPENAI_API_KEY and OPENAI_BASE_URL itself, and comes with `pip install keepstep[agent]`. Unset, the script answers.
"""

import json
import os
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, Protocol

from pydantic import BaseModel

from keepstep.examples.agent_tools import SCHEMAS

SYSTEM = (
    "You work for a shop, and answer questions about orders. Look up what you need, all at once where you can, before "
    "you decide. Pay back only what the policy allows."
)


class ToolCall(BaseModel):
    """A tool that the model wants used."""

    id: str
    name: str
    arguments: dict[str, Any] = {}


class Message(BaseModel):
    """One message of the conversation, whoever said it."""

    role: Literal["user", "assistant", "tool"]
    content: str = ""
    tool_calls: list[ToolCall] = []
    tool_call_id: str | None = None


class Reply(BaseModel):
    """What the model said. cost: in tokens, if it says so."""

    message: Message
    cost: dict[str, float] = {}


class Model(Protocol):
    """Whatever answers a conversation."""

    def reply(self, messages: Sequence[Message], key: str) -> Reply:
        """The next message. key: the step's idempotency key."""


@cache
def model() -> Model:
    """The one that the environment names; else the script."""
    name = os.environ.get("KEEPSTEP_AGENT_MODEL", "")
    return OpenAICompatible(name) if name else Scripted()


class Scripted:
    """Plays one case of a refund, from what it has been told so far."""

    def reply(self, messages: Sequence[Message], key: str) -> Reply:  # noqa: ARG002  (a script costs nothing twice)
        """Look up, then refund, then say what came of it."""
        turn = sum(message.role == "assistant" for message in messages)
        order = next((word.strip("?.,!") for word in messages[0].content.split() if word.startswith("A-")), "A-17")
        if turn == 0:
            return _uses(turn, ("look_up_order", {"order": order}), ("look_up_customer", {"customer": "C-3"}),
                         ("look_up_policy", {}))  # fmt: skip
        told = [message.content for message in messages if message.role == "tool"]
        if turn == 1 and told[0].startswith("error"):
            return Reply(message=Message(role="assistant", content=f"I can't find that order: {told[0]}"))
        if turn == 1:
            return _uses(turn, ("refund", {"order": order, "amount": 49}))
        if "refused" in told[-1]:
            return Reply(message=Message(role="assistant", content=f"No refund: {told[-1]}."))
        return Reply(message=Message(role="assistant", content=f"Done: {told[-1]}."))


def _uses(turn: int, *tools: tuple[str, dict[str, Any]]) -> Reply:
    calls = [ToolCall(id=f"call-{turn}-{n}", name=name, arguments=given) for n, (name, given) in enumerate(tools)]
    return Reply(message=Message(role="assistant", tool_calls=calls))


class OpenAICompatible:
    """Any server that speaks OpenAI's chat completions."""

    def __init__(self, name: str):
        try:
            import openai
        except ModuleNotFoundError:
            raise RuntimeError(
                "KEEPSTEP_AGENT_MODEL is set, but no client is there: pip install 'keepstep[agent]'"
            ) from None
        self._name = name
        self._client: Any = openai.OpenAI(max_retries=0, timeout=100.0)  # the step's own retry is durable

    def reply(self, messages: Sequence[Message], key: str) -> Reply:
        """Ask the model; the step's key goes along, for servers and gateways that honour it."""
        answer = self._client.chat.completions.create(
            model=self._name,
            messages=[{"role": "system", "content": SYSTEM}, *map(_sent, messages)],
            tools=SCHEMAS,
            extra_headers={"Idempotency-Key": key},
        )
        said = answer.choices[0].message
        calls = [
            ToolCall(id=call.id, name=call.function.name, arguments=_arguments(call.function.arguments))
            for call in said.tool_calls or ()
        ]
        used = answer.usage
        cost = {} if used is None else {"tokens": float(used.total_tokens)}
        return Reply(message=Message(role="assistant", content=said.content or "", tool_calls=calls), cost=cost)


def _sent(message: Message) -> dict[str, Any]:
    """As the protocol has it."""
    sent: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_call_id is not None:
        sent["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        sent["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in message.tool_calls
        ]
    return sent


def _arguments(text: str) -> dict[str, Any]:
    """What the model gave, which need not be an object; the tool then says what it misses."""
    try:
        given = json.loads(text or "{}")
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}
