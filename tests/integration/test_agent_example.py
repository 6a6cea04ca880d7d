"""The agent example thinks, uses tools side by side, asks a person, and answers; with a script, and with a server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest

from keepstep.examples import agent_models
from keepstep.examples.agent import agent
from keepstep.testing.runner import Runner


@pytest.fixture
def runner(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    monkeypatch.delenv("KEEPSTEP_AGENT_MODEL", raising=False)
    agent_models.model.cache_clear()
    with Runner(database_url, workflows=[agent]) as runner:
        yield runner
    agent_models.model.cache_clear()


def test_tools_are_used_side_by_side_and_a_refund_only_after_a_person_agreed(runner: Runner) -> None:
    case = runner.start(agent, "T-1", {"question": "Can I send back order A-17?"})
    asked = runner.run_until("waiting", step="ask")
    assert runner.client.waits("agent", "T-1")[0]["prompt"]["wants"] == ["refund(order='A-17', amount=49)"]
    tools = [message for message in asked.state["messages"] if message["role"] == "tool"]
    assert [tool["content"][:10] for tool in tools] == ["{'customer", "{'name': '", "Within 30 "]
    assert len(runner.client.branches("agent", "T-1")) == 3
    runner.approve(case, actor="R. Ortiz")
    runner.run()
    done = runner.get(case)
    assert done.status == "completed"
    assert done.state["answer"].startswith("Done: paid back 49 for A-17, receipt R-")


def test_a_person_who_refuses_is_told_to_the_model(runner: Runner) -> None:
    case = runner.start(agent, "T-1", {"question": "Can I send back order A-17?"})
    runner.run_until("waiting", step="ask")
    runner.reject(case, actor="R. Ortiz", note="too late")
    runner.run()
    assert runner.get(case).state["answer"] == "No refund: a person refused: too late."


def test_a_tool_that_says_no_is_the_model_s_to_deal_with(runner: Runner) -> None:
    case = runner.start(agent, "T-1", {"question": "Can I send back order A-99?"})
    runner.run()
    assert runner.get(case).state["answer"] == "I can't find that order: error: there is no order 'A-99'"


class Speaks(BaseHTTPRequestHandler):
    """A server that answers as the script would, in OpenAI's protocol."""

    asked: ClassVar[list[dict[str, Any]]] = []
    keys: ClassVar[list[str | None]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body)
        self.keys.append(self.headers.get("Idempotency-Key"))
        calls = [{"id": "c1", "type": "function", "function": {"name": "look_up_policy", "arguments": "{}"}}]
        said = {"role": "assistant", "content": None, "tool_calls": calls}
        if len(body["messages"]) > 2:
            said = {"role": "assistant", "content": "Within 30 days."}
        answer = {
            "id": "x", "object": "chat.completion", "created": 1, "model": body["model"],
            "choices": [{"index": 0, "message": said, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
        }  # fmt: skip
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass


def test_a_real_client_speaks_to_a_server(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    server = HTTPServer(("127.0.0.1", 0), Speaks)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("KEEPSTEP_AGENT_MODEL", "some-model")
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    agent_models.model.cache_clear()
    case = runner.start(agent, "T-1", {"question": "What is the policy?"})
    runner.run()
    server.shutdown()
    assert runner.get(case).state["answer"] == "Within 30 days."
    first, second = Speaks.asked
    assert (first["model"], first["messages"][0]["role"], len(first["tools"])) == ("some-model", "system", 4)
    assert second["messages"][-1]["role"] == "tool"
    assert len(set(Speaks.keys)) == 2
    assert None not in Speaks.keys
    assert sum(call.cost.get("tokens", 0) for call in runner.client.calls("agent", "T-1")) == 14
