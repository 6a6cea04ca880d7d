"""A process knows the workflows of the modules that the user names, and says what is wrong with a name."""

import itertools
import sys
from collections.abc import Callable, Iterator
from json import JSONDecodeError
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from pydantic import BaseModel

from keepstep.steps.errors import BadSetting, DefinitionError, UnknownWorkflow
from keepstep.steps.workflow import Workflow
from keepstep.workers.registry import Registry

HEAD = """
from pydantic import BaseModel
from keepstep.steps.workflow import Workflow
class State(BaseModel): pass
def step(state, call): pass
def flow(name, **options):
    workflow = Workflow(name, state=State, **options)
    workflow.step(step)
    return workflow
"""
numbers = itertools.count()
Module = Callable[..., str]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Module]:
    """Write a module of its own name into the current folder; returns the name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)

    def write(body: str, *, name: str | None = None) -> str:
        name = name or f"flows_of_test_{next(numbers)}"
        file = tmp_path / (name.replace(".", "/") + ".py")
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(HEAD + dedent(body))
        return name

    yield write
    for name in set(sys.modules) - before:
        if name.startswith(("flows_of_test", "package_of_test")):
            del sys.modules[name]


def loaded(*names: str) -> Registry:
    registry = Registry()
    registry.load(names)
    return registry


def test_every_workflow_of_a_module_is_found_once_below_the_current_folder(module: Module) -> None:
    name = module("a = flow('a')\nalso_a = a\nb = flow('b', schema_version=3, queue='slow')")
    registry = loaded(name, name)
    assert [w.name for w in registry] == ["a", "b"]
    assert registry.versions == {"a": 1, "b": 3}
    assert registry.known == '{"a":1,"b":3}'
    assert registry.queues == ("keepstep", "slow")


def test_workflows_that_a_module_imports_count_as_its_own(module: Module) -> None:
    inner = module("a = flow('a')")
    outer = module(f"from {inner} import a")
    assert [w.name for w in loaded(outer, inner)] == ["a"]


@pytest.mark.parametrize("name", ["no_such_module_here", "no_such.module", "json.no_such", "flows.py", "a b"])
def test_a_module_that_isnt_there_is_a_bad_setting(module: Module, name: str) -> None:
    with pytest.raises(BadSetting, match=f"KEEPSTEP_WORKFLOWS names the module '{name}', which can't be found"):
        loaded(name)


@pytest.mark.parametrize("name", ["", ".flows", "..flows"])
def test_what_is_no_full_module_name_is_a_bad_setting(name: str) -> None:
    with pytest.raises(BadSetting, match="no full module name"):
        loaded(name)


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("import no_such_dependency", ModuleNotFoundError, "No module named 'no_such_dependency'"),
        ("import no_such_dependency.deeper", ModuleNotFoundError, "No module named 'no_such_dependency'"),
        ("from json import no_such_name", ImportError, "cannot import name 'no_such_name'"),
        ("raise ModuleNotFoundError('by hand')", ModuleNotFoundError, "by hand"),
        ("raise ValueError('its own')", ValueError, "its own"),
        ("1 / 0", ZeroDivisionError, "division by zero"),
        ("import json; json.loads('{')", JSONDecodeError, "Expecting property name"),
        ("Workflow('a', State)", TypeError, "positional argument"),
    ],
)
def test_a_module_that_breaks_is_named_with_its_error_and_the_line_of_its_own_code(
    module: Module, body: str, error: type[Exception], message: str
) -> None:
    name, line = module(body), HEAD.count("\n") + 1
    with pytest.raises(BadSetting) as refusal:
        loaded(name)
    text = str(refusal.value)
    assert text.startswith(f"KEEPSTEP_WORKFLOWS: module {name!r} can't be imported: {error.__name__}: ")
    assert message in text
    assert text.endswith(f"{name}.py, line {line})")
    assert isinstance(refusal.value.__cause__, error)


def test_a_module_with_a_syntax_error_is_named_with_its_line(module: Module) -> None:
    name = module("a = = 1")
    with pytest.raises(
        BadSetting, match=rf"module '{name}' can't be imported: SyntaxError: .* \({name}\.py, line \d+\)$"
    ):
        loaded(name)


def test_a_wrong_definition_keeps_its_own_message(module: Module) -> None:
    with pytest.raises(DefinitionError, match="workflow name"):
        loaded(module("Workflow('a b', state=State)"))


def test_a_dependency_whose_name_begins_like_the_modules_is_named_itself(module: Module) -> None:
    name = module("", name="package_of_test/__init__").partition("/")[0]
    module("import package_of_test_too", name="package_of_test/flows")
    with pytest.raises(BadSetting, match=r"can't be imported: .*'package_of_test_too'"):
        loaded(f"{name}.flows")
    module("import package_of_test.missing", name="package_of_test/other")
    with pytest.raises(BadSetting, match=r"can't be imported: .*'package_of_test\.missing'"):
        loaded(f"{name}.other")
    with pytest.raises(BadSetting, match="can't be found"):
        loaded(f"{name}.nowhere")


def test_a_module_without_workflows_is_a_bad_setting(module: Module) -> None:
    with pytest.raises(BadSetting, match="which defines no Workflow"):
        loaded(module("the_class = Workflow"))


def test_two_workflows_of_one_name_are_refused_with_both_lines(module: Module) -> None:
    first, second = module("a = flow('same')"), module("b = flow('same')")
    with pytest.raises(DefinitionError, match=rf"{second}\.py:\d+: there are two .*'same'; .* at .*{first}\.py:\d+"):
        loaded(first, second)


def test_an_unfinished_workflow_is_refused_and_not_kept(module: Module) -> None:
    name = module("a = Workflow('empty', state=State)")
    registry = Registry()
    with pytest.raises(DefinitionError, match="has no steps"):
        registry.load([name])
    assert list(registry) == []


class State(BaseModel):
    pass


def nothing(state: State, call: Any) -> None:
    """A step."""


def test_an_unknown_workflow_is_refused_with_those_that_are_loaded() -> None:
    workflow = Workflow("known", state=State)
    workflow.step(nothing)
    registry = Registry([workflow, workflow])
    assert registry.get("known") is workflow
    with pytest.raises(UnknownWorkflow, match=r"unknown workflow 'other'; loaded: known.*KEEPSTEP_WORKFLOWS"):
        registry.get("other")
    with pytest.raises(UnknownWorkflow, match="loaded: none"):
        Registry().get("other")
