"""An agent: it thinks, uses its tools side by side, thinks again, and asks a person before it does harm.

Each call of the model is a step and each use of a tool a branch, with a key of its own: a crash repeats at most the one
call in flight. Without a setting the model is a script, so it runs offline; see `agent_models.py` for a real one.
"""

from datetime import timedelta
from typing import Any

from pydantic import BaseModel
from tenacity import wait_exponential_jitter

from keepstep import Approval, BranchResult, Call, Log, Retry, Workflow, fan_out, finish, goto, wait_for
from keepstep.examples.agent_models import Message, ToolCall, model
from keepstep.examples.agent_tools import ASK_FIRST, TOOLS
from keepstep.steps.outcome import Outcome

MOST_TURNS = 20
"""How often the agent may think before somebody looks why it comes to no end."""


class Agent(BaseModel):
    """messages: the conversation so far. wanted: the tools that the model wants used now. results: of those."""

    question: str
    messages: Log[Message] = Log()
    wanted: list[ToolCall] = []
    results: list[BranchResult[str]] = []
    approval: Approval | None = None
    answer: str | None = None


agent = Workflow(
    "agent",
    state=Agent,
    retention=timedelta(days=30),
    timeout=timedelta(minutes=2),
    retry=Retry(attempts=5, wait=wait_exponential_jitter(max=60)),
)


@agent.step(next=["ask", "use_tools"], max_visits=MOST_TURNS)
def think(state: Agent, call: Call) -> Outcome:
    if not state.messages:
        state.messages.append(Message(role="user", content=state.question))
    reply = model().reply(state.messages, call.key)
    if reply.cost:
        call.cost(**reply.cost)
    state.messages.append(reply.message)
    wanted = reply.message.tool_calls
    if not wanted:
        return finish(answer=reply.message.content, wanted=[])
    careful = any(tool.name in ASK_FIRST for tool in wanted)
    return goto("ask" if careful else "use_tools", wanted=wanted, approval=None)


@agent.step
def ask(state: Agent, call: Call) -> Outcome:
    wanted = [f"{tool.name}({', '.join(f'{k}={v!r}' for k, v in tool.arguments.items())})" for tool in state.wanted]
    return wait_for(
        "approval",
        into="approval",
        payload=Approval,
        prompt={"question": state.question, "wants": wanted},
        timeout=timedelta(days=3),
        default={"approved": False, "note": "nobody answered in three days"},
    )


@agent.step
def use_tools(state: Agent, call: Call) -> dict[str, Any] | Outcome:
    if state.approval is not None and not state.approval.approved:
        said = f"a person refused: {state.approval.note or 'no reason given'}"
        return {"results": [BranchResult[str](result=said) for _ in state.wanted]}
    return fan_out("use_tool", over=state.wanted, into="results", on_error="collect")


@agent.step
def read(state: Agent, call: Call) -> Outcome:
    for tool, result in zip(state.wanted, state.results, strict=True):
        state.messages.append(Message(role="tool", tool_call_id=tool.id, content=_told(result)))
    return goto("think", wanted=[], results=[])


@agent.branch(timeout=timedelta(seconds=30))
def use_tool(tool: ToolCall, call: Call) -> str:
    """A tool that there isn't, or that says no, is the model's to deal with: its error is a result."""
    if tool.name not in TOOLS:
        return f"error: there is no tool {tool.name!r}"
    try:
        return TOOLS[tool.name](**tool.arguments, key=call.key)
    except (TypeError, LookupError, ValueError) as error:
        return f"error: {error}"


def _told(result: BranchResult[str]) -> str:
    return result.result or "" if result.error is None else f"error: {result.error.message}"
