"""What a step may fan out into: one case for each item, for each name, or for each child workflow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from keepstep.steps.outcome import Outcome, Update
from keepstep.steps.workflow import Workflow

OnError = Literal["fail", "collect"]
Shape = Literal["list", "dict", "one"]

MOST_BRANCHES = 100_000
"""Of one fan-out: its list is written by one statement."""

UNGIVEN: Any = object()
"""Stands for an item that wasn't given: None is an item like any other."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One branch as it is asked for. step: of the workflow's branches; else a child of this workflow begins.

    name: in a fan-out by names. item: what the branch gets, or the child's state.
    """

    step: str | None = None
    workflow: Workflow | str | None = None
    thread_id: str | None = None
    name: str | None = None
    item: Any = UNGIVEN


@dataclass(frozen=True, kw_only=True)
class FanOut(Outcome):
    """Begin a case for each branch, wait for all of them, and go on with their results in the field `into`."""

    branches: tuple[Asked, ...]
    shape: Shape
    into: str | None = None
    then: str | None = None
    max_running: int | None = None
    on_error: OnError = "fail"


Named = str | tuple[str, Any] | FanOut
"""What a branch by name is: a branch step, a branch step and its item, or what `start_child` returned."""


def fan_out(
    branches: str | Callable[..., Any] | Mapping[str, Named] | Sequence[FanOut],
    /,
    *,
    over: Iterable[Any] | None = None,
    into: str | None = None,
    then: str | None = None,
    max_running: int | None = None,
    on_error: OnError = "fail",
    update: Update | None = None,
) -> FanOut:
    """Run branches side by side, each a case of its own, and go on when all have ended; nothing is held meanwhile.

    branches: the name of a branch step, called as `step(item, call)` for each item `over` a list; or a dict by name, of
    branch steps, each alone (its item is then the state) or as `(step, item)`; or a list or a dict of `start_child`.
    into: the field that takes the results, as a list in the order of the items, or a dict by name. then: the step to
    go on with (default: the next one). max_running: how many may be unfinished at a time. on_error: "fail" cancels the
    others and fails the case when a branch fails; "collect" puts a `BranchResult` for each into the field. A branch
    whose retries run out is held, and the case waits for it.
    """
    if on_error not in get_args(OnError):
        raise ValueError(f"fan_out(on_error={on_error!r}): either 'fail' or 'collect'")
    if max_running is not None and (type(max_running) is not int or max_running < 1):
        raise ValueError(f"fan_out(max_running={max_running!r}): a whole number from 1 on, or None")
    asked, shape = _asked(branches, over)
    if len(asked) > MOST_BRANCHES:
        raise ValueError(
            f"fan_out() over {len(asked):,} items: the most is {MOST_BRANCHES:,}. Give each branch a batch of items."
        )
    return FanOut(
        branches=asked,
        shape=shape,
        into=into,
        then=then,
        max_running=max_running,
        on_error=on_error,
        update=update or {},
    )


def start_child(
    workflow: Workflow | str,
    /,
    state: Any = None,
    *,
    thread_id: str | None = None,
    into: str | None = None,
    then: str | None = None,
    on_error: OnError = "fail",
    update: Update | None = None,
) -> FanOut:
    """Run a case of another workflow, and go on when it has ended, with its last state in the field `into`.

    workflow: the Workflow, or the name of the step's own. state: as of `Client.start`. thread_id: by default one that
    is made from the case's own. then, on_error, update: as of `fan_out`, which takes several children at once.
    """
    if on_error not in get_args(OnError):
        raise ValueError(f"start_child(on_error={on_error!r}): either 'fail' or 'collect'")
    if not isinstance(workflow, Workflow | str):
        raise ValueError(f"start_child({workflow!r}): give a Workflow, or the name of the step's own")
    child = Asked(workflow=workflow, thread_id=thread_id, item={} if state is None else state)
    return FanOut(branches=(child,), shape="one", into=into, then=then, on_error=on_error, update=update or {})


def _asked(branches: Any, over: Iterable[Any] | None) -> tuple[tuple[Asked, ...], Shape]:
    if isinstance(branches, str) or (callable(branches) and not isinstance(branches, Mapping)):
        name = branches if isinstance(branches, str) else getattr(branches, "__name__", repr(branches))
        if over is None or isinstance(over, str | bytes | Mapping):
            raise ValueError(f"fan_out({name!r}, over={over!r}): give a list of items")
        return tuple(Asked(step=name, item=item) for item in over), "list"
    if over is not None:
        raise ValueError("fan_out(): over= goes with the name of one branch step")
    if isinstance(branches, Mapping):
        return tuple(_named(name, what) for name, what in branches.items()), "dict"
    if isinstance(branches, Iterable):
        return tuple(_child(number, what) for number, what in enumerate(branches)), "list"
    raise ValueError(f"fan_out({branches!r}): give a branch step's name with over=, a dict by name, or a list")


def _named(name: Any, what: Any) -> Asked:
    if not isinstance(name, str) or not name:
        raise ValueError(f"fan_out(): a branch is named by text, not by {name!r}")
    if isinstance(what, FanOut):
        child = _child(name, what)
        return Asked(workflow=child.workflow, thread_id=child.thread_id, item=child.item, name=name)
    step, item = what if isinstance(what, tuple) and len(what) == 2 else (what, UNGIVEN)
    if not isinstance(step, str):
        raise ValueError(f"fan_out(): {name!r} must be a branch step, (step, item) or start_child(...), not {what!r}")
    return Asked(step=step, item=item, name=name)


def _child(which: str | int, what: Any) -> Asked:
    if not isinstance(what, FanOut) or what.shape != "one":
        raise ValueError(f"fan_out(): branch {which!r} must be start_child(...), not {what!r}")
    if what.into or what.then or what.update or what.on_error != "fail":
        raise ValueError(f"fan_out(): branch {which!r}: give into=, then=, on_error= and update= once, to the whole")
    return what.branches[0]
