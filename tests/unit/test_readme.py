"""The README's first screen is code that works."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from keepstep import Workflow
from keepstep.steps import state as states
from keepstep.steps.decide import Decision, Returned, View, decide
from keepstep.steps.workflow import DEFAULT_QUEUE

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
WORKFLOW = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]


def test_the_first_workflow_does_what_it_says() -> None:
    paid: list[str] = []
    outside = {
        "vault": SimpleNamespace(list=lambda number, headers: ["a.pdf"]),
        "bank": SimpleNamespace(pay=lambda number, headers: paid.append(headers["Idempotency-Key"])),
    }
    names: dict[str, Any] = dict(outside)
    exec(compile(WORKFLOW, "README.md", "exec", dont_inherit=True), names)
    claims: Workflow = names["claims"]
    claims.check()
    state: dict[str, Any] = states.dump(claims.state.model_validate({"number": "C-1042"}))
    call = SimpleNamespace(headers={"Idempotency-Key": "k"})

    def run(step: str) -> Decision:
        copy = states.load(claims.state, state)
        view = View(workflow=claims, step=claims.steps[step], before=state)
        return decide(view, Returned(value=claims.steps[step].function(copy, call), copy=copy))

    pulled = run("pull_documents")
    assert (pulled.move, pulled.state["documents"]) == ("advance", ["a.pdf"])
    assert run("ask_adjuster").move == "wait"
    state["approval"] = {"approved": False}
    assert (run("pay").move, paid) == ("fail", [])
    state["approval"] = {"approved": True}
    assert (run("pay").move, paid) == ("complete", ["k"])


def test_no_placeholder_is_left() -> None:
    words = set(re.findall(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b", README))
    assert {word for word in words if not word.startswith(("KEEPSTEP_", "FLOWER_"))} == set()


def test_every_queue_that_a_worker_is_started_for_is_explained() -> None:
    """A queue other than the default one exists only if a step names it, and a worker without -Q takes all of them."""
    queues = set(re.findall(r"worker -Q (\S+)", README))
    assert queues == {DEFAULT_QUEUE, "slow-api"}
    assert 'queue="slow-api"' in README


def test_the_line_for_compose_gives_what_compose_asks_for() -> None:
    asked = re.findall(r"\$\{(\w+):\?", (ROOT / "docker-compose.yml").read_text())
    assert asked
    for line in [line for line in README.splitlines() if "docker compose up" in line]:
        assert all(f"{name}=" in line for name in asked), line
    assert "docker compose up" in README


def test_the_first_workflow_fits_a_screen() -> None:
    code = [line for line in WORKFLOW.splitlines() if line and not line.startswith(("from", "import"))]
    assert len(code) <= 16
    assert README.index("make test") < README.index("## Use it")
