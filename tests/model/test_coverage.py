"""The models speak of the code: their actions exist there, their moves are legal, and no legal move is forgotten."""

from __future__ import annotations

import inspect
import pkgutil
import re
from functools import cache
from types import ModuleType
from typing import Any

import pytest

from keepstep.steps.moves import MOVES, Status
from tests.model import (
    crashes,
    deadline,
    deploy,
    doubt,
    doubt_world,
    join,
    looks,
    newer,
    signals,
    steering,
    step,
    step_sweep,
    values,
)
from tests.model.crashes import Crashes
from tests.model.deadline import Deadline
from tests.model.deploy import Deploy
from tests.model.doubt import Doubt
from tests.model.join import Join
from tests.model.looks import Looks
from tests.model.newer import Newer
from tests.model.search import Real, explore
from tests.model.signals import Signals
from tests.model.steering import Steering
from tests.model.step import Step
from tests.model.values import Values

MODELS: dict[ModuleType, tuple[Any, ...]] = {
    step: (Step(), Step(timer=True)),
    doubt: (Doubt("hold", decisions=1), Doubt("verify", decisions=1), Doubt("retry", decisions=0, faults=1)),
    steering: (Steering(faults=1, verbs=2),),
    signals: (Signals("decision"), Signals("votes"), Signals("all"), Signals("stream")),
    deadline: (Deadline(),),
    join: (Join(items=2), Join(items=2, on_error="fail")),
    looks: (Looks(), Looks(on_error="collect")),
    crashes: tuple(Crashes(kind) for kind in crashes.RULES),
    newer: (Newer("signal"), Newer("results")),
    deploy: (Deploy(), Deploy(removed=True), Deploy(tightened=True), Deploy(replaced=True)),
    values: (Values(faults=1),),
}
"""Every model, with bounds that are small, but let each action happen."""

ONLY_IN_MUTATIONS = {
    signals: {"begin"},
    deadline: set[str](),
    join: {"look", "begin"},
    looks: {"ask too early"},
}
"""Actions that happen only when a rule is left out."""

NOT_BUILT: set[str] = set()
"""Moves of the models that the code hasn't got yet."""

NOT_MODELLED = {
    "start": "it is every model's first state",
    "fork": "a birth, which moves nothing of the case that it is made from",
}
"""Legal moves that no model makes, and why."""

UNDOES = {"database crashes": "what wasn't flushed is gone", "begin anew": "the case is pruned, and another one starts"}
"""Actions that change a status without being a move of the case."""

NOT_YET = {}
"""Rules that the code doesn't keep yet, and why: what their mutations lead to can happen."""


@cache
def changes(module: ModuleType) -> frozenset[tuple[str, str, str]]:
    return frozenset().union(*(explore(model).changes for model in MODELS[module]))


def rules(module: ModuleType) -> set[str]:
    """All the names of rules that the module's tables have."""
    names: set[str] = set()
    for table in ("RULES", "TWO_BELTS", *(name for name in dir(module) if name.startswith("ONLY_"))):
        for key in getattr(module, table, ()):
            value = module.RULES.get(key) if table == "RULES" else None
            names |= set(value) if isinstance(value, dict) else {key} if isinstance(key, str) else set(key)
    return names


def named(module: ModuleType) -> list[tuple[str, Real]]:
    return list(module.STANDS_FOR.items())


@pytest.mark.parametrize("module", MODELS, ids=lambda m: m.__name__.rpartition(".")[2])
def test_every_action_stands_for_something_and_happens(module: ModuleType) -> None:
    happened = {action for action, _, _ in changes(module)}
    assert happened == set(module.STANDS_FOR) - ONLY_IN_MUTATIONS.get(module, set())


@pytest.mark.parametrize("module", MODELS, ids=lambda m: m.__name__.rpartition(".")[2])
def test_what_an_action_stands_for_exists(module: ModuleType) -> None:
    for action, real in named(module):
        assert not real.code or pkgutil.resolve_name(real.code) is not None, action


@pytest.mark.parametrize("module", MODELS, ids=lambda m: m.__name__.rpartition(".")[2])
def test_every_change_of_a_status_is_a_legal_move(module: ModuleType) -> None:
    for action, before, after in sorted(changes(module)):
        move = module.STANDS_FOR[action].move
        if before == after or move in NOT_BUILT or action in UNDOES:
            continue
        assert move, f"{action} leads from {before} to {after}, and is no move"
        legal = Status(before) in MOVES[move].sources and Status(after) in MOVES[move].targets
        assert legal, f"{action} is {move}, which doesn't lead from {before} to {after}"


def test_every_move_of_the_models_is_in_the_table_of_moves() -> None:
    modelled = {real.move for module in MODELS for _, real in named(module)} - {""}
    assert modelled - set(MOVES) <= NOT_BUILT


def test_every_legal_move_is_modelled() -> None:
    made = {module.STANDS_FOR[action].move for module in MODELS for action, _, _ in changes(module)}
    assert set(MOVES) - made == set(NOT_MODELLED)


@pytest.mark.parametrize("module", [*MODELS, step_sweep, doubt_world], ids=lambda m: m.__name__.rpartition(".")[2])
def test_a_model_asks_for_no_rule_that_its_tables_lack(module: ModuleType) -> None:
    home = {step_sweep: step, doubt_world: doubt}.get(module, module)
    asked = set(re.findall(r'self\.has\(\s*"([^"]+)"', inspect.getsource(module)))
    assert asked
    assert asked <= rules(home) | rules(module)


def test_what_the_code_does_not_do_yet_is_a_rule() -> None:
    assert all(rule in rules(module) for module, rule in NOT_YET)
