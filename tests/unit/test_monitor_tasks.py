"""From a task's name and arguments, as Flower shows them, to the case."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import UUID

import pytest

from keepstep.monitor.tasks import arguments, candidates, is_step
from keepstep.steps.keys import case_id

ID = "0a1b2c3d-0000-5000-8000-000000000001"


@pytest.mark.parametrize(
    ("shown", "read"),
    [
        ("('APP-1', 7)", ("APP-1", 7)),
        ('("it\'s <b>", 0)', ("it's <b>", 0)),
        (f"({ID}, 3)", (ID, 3)),
        ("(1, 2)", None),
        ("('a',)", None),
        ("('a', True)", None),
        ("__import__('os').system('true')", None),
        ("(" * 900, None),
        ("('" + "a" * 5000 + "', 1)", None),
        (None, None),
        (7, None),
    ],
)
def test_arguments_are_read_and_never_run(shown: object, read: object) -> None:
    assert arguments(shown) == read


def test_dots_may_be_in_both_names() -> None:
    found = candidates("my.flow.step.one", "A")
    assert found == [case_id(name, "A") for name in ("my", "my.flow", "my.flow.step")]
    assert candidates("flow.step", ID)[-1] == UUID(ID)


def test_other_tasks_are_no_steps() -> None:
    assert is_step(SimpleNamespace(name="flow.step", args="('A', 1)"))
    assert not is_step(SimpleNamespace(name="celery.backend_cleanup", args="()"))
    assert not is_step(SimpleNamespace(name=None, args=None))
