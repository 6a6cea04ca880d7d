"""A fingerprint tells people that two workers ran other code; it is the same wherever the same code is loaded."""

from __future__ import annotations

import functools
import subprocess
import sys
from typing import Any

from pydantic import BaseModel

from keepstep import Workflow
from keepstep.examples.intake import intake
from keepstep.steps.fingerprint import fingerprint


class State(BaseModel):
    n: int = 0


class Larger(State):
    m: int = 0


def step(state: Any, call: Any) -> None:
    """One text."""


def other(state: Any, call: Any) -> None:
    """Another text."""


def flow(function: Any = step, state: Any = State, **options: Any) -> Workflow:
    workflow = Workflow("flow", state=state, **options)
    workflow.step(function, name="only")
    return workflow


def test_it_changes_with_whatever_is_declared() -> None:
    kinds = [flow(), flow(other), flow(state=Larger), flow(schema_version=2), flow(removed={"old": "only"})]
    prints = [fingerprint(kind) for kind in kinds]
    assert len(set(prints)) == len(prints)
    assert all(len(one) == 8 for one in prints)
    assert fingerprint(flow()) == prints[0]


def test_functions_without_a_source_have_one_too() -> None:
    made: dict[str, Any] = {}
    exec("def f(state, call): return {'n': 1}\ndef g(state, call): return {'n': state.n}", made)
    assert fingerprint(flow(made["f"])) != fingerprint(flow(made["g"]))
    assert fingerprint(flow(functools.partial(step)))


def test_every_process_sees_the_same() -> None:
    code = "from keepstep.examples.intake import intake as i; from keepstep.steps.fingerprint import fingerprint as f"
    told = subprocess.run([sys.executable, "-c", f"{code}; print(f(i))"], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == fingerprint(intake)
