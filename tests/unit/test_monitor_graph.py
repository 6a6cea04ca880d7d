"""The picture of a workflow: its steps in order, the ways that were taken, where the case stands."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from pydantic import BaseModel

from keepstep import Workflow
from keepstep.checkpoint.timeline import Passage
from keepstep.examples.intake import intake
from keepstep.monitor.graph import END, picture


class S(BaseModel):
    x: int = 0


def workflow() -> Workflow:
    w = Workflow("w", state=S)

    @w.step
    def a(state: S, call: Any) -> None: ...

    @w.step(next=["d", "a"], aliases=["old_b"])
    def b(state: S, call: Any) -> None: ...

    @w.step
    def c(state: S, call: Any) -> None: ...

    @w.step
    def d(state: S, call: Any) -> None: ...

    return w


def passed(*steps: tuple[str, str | None], kind: str = "step") -> list[Passage]:
    return [
        Passage(seq=n, kind=kind, step=step, target=target, status="queued" if target else "waiting")
        for n, (step, target) in enumerate(steps, 1)
    ]


def taken(drawn: Any) -> set[str]:
    return {line.said for line in drawn.lines if line.taken}


def test_edges_are_those_declared_and_those_taken() -> None:
    drawn = picture(workflow(), passed(("a", "b"), ("old_b", "d")), step="d", status="queued", seq=2)
    assert [box.name for box in drawn.boxes] == ["a", "b", "c", "d", END]
    assert {line.said for line in drawn.lines} == {"a → b", "b → d", "b → a", "c → d", "d → end"}
    assert taken(drawn) == {"a → b", "b → d"}
    assert [(box.name, box.visited, box.now) for box in drawn.boxes] == [
        ("a", 1, None),
        ("b", 1, None),
        ("c", 0, None),
        ("d", 0, "queued"),
        (END, 0, None),
    ]


def test_a_jump_that_no_code_declares_is_drawn_when_it_was_taken() -> None:
    drawn = picture(workflow(), passed(("a", "d"), ("d", "a")), step="a", status="running", seq=2)
    assert {"a → d", "d → a"} <= taken(drawn)


def test_a_signal_counts_for_the_step_that_asked() -> None:
    asked = passed(("a", None))
    answered = Passage(seq=2, kind="signal", step="approval", target="b", status="queued")
    drawn = picture(workflow(), [*asked, answered], step="b", status="queued", seq=2)
    assert taken(drawn) == {"a → b"}
    assert "approval" not in [box.name for box in drawn.boxes]


def test_waiting_is_not_the_end_and_the_end_is() -> None:
    assert taken(picture(workflow(), passed(("d", None)), step="d", status="waiting", seq=1)) == set()
    last = Passage(seq=1, kind="step", step="d", target=None, status="completed")
    ended = picture(workflow(), [last], step=None, status="completed", seq=1)
    assert taken(ended) == {"d → end"}
    assert ended.boxes[-1].now == "completed"


def test_without_code_the_way_that_was_taken_is_drawn() -> None:
    drawn = picture(None, passed(("x", "y"), ("y", "x"), ("x", "z")), step="z", status="held", seq=3)
    assert not drawn.known
    assert [box.name for box in drawn.boxes] == ["x", "y", "z"]
    assert taken(drawn) == {"x → y", "y → x", "x → z"}


def test_no_two_boxes_lie_upon_each_other_and_all_lie_in_the_frame() -> None:
    drawn = picture(intake, [], step="register", status="queued", seq=0)
    assert len(drawn.boxes) == 43
    tops = [box.y for box in drawn.boxes]
    assert all(below - above >= 34 for above, below in pairwise(tops))
    assert all(box.x >= 0 and box.x + 230 <= drawn.width and box.y + 34 <= drawn.height for box in drawn.boxes)
