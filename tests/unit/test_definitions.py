"""A workflow that is declared wrongly is refused while its module is imported, with the file and line to look at."""

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, RootModel, create_model

from keepstep.steps.errors import DefinitionError, UnknownStep
from keepstep.steps.retry import Retry
from keepstep.steps.workflow import Workflow


class State(BaseModel):
    n: int = 0


def good(state: State, call: Any) -> None:
    """A sound step."""


def new() -> Workflow:
    return Workflow("flow", state=State)


def line_of(thing: Any) -> str:
    """Where inspect finds it: `file.py:12`."""
    return f"{__file__}:{inspect.getsourcelines(thing)[1]}"


@contextmanager
def refused(message: str, at: Any = None) -> Iterator[None]:
    """DefinitionError with this message, at the declaration of `at`, or at the line that called."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    assert frame.f_back.f_back is not None
    first = frame.f_back.f_back.f_lineno
    with pytest.raises(DefinitionError, match=message) as refusal:
        yield
    text = str(refusal.value)
    if at is None:
        file, line, _ = text.split(":", 2)
        assert file == __file__
        assert first < int(line.split(":")[0]) <= first + 3
    else:
        assert text.startswith(f"{line_of(at)}: ")


# ------------------------------------------------------------------------------------------------------ the workflow
@pytest.mark.parametrize("name", ["", "1st", "two words", "a/b", "é", "a\n", "a\0", "x" * 101, None, 7, "-a"])
def test_a_bad_workflow_name_is_refused_where_it_is_declared(name: Any) -> None:
    with refused("workflow name .* must be 1 to 100 letters"):
        Workflow(name, state=State)


@pytest.mark.parametrize("name", ["a", "_a", "A-b.c_9", "x" * 100])
def test_a_good_workflow_name_is_taken_as_it_is(name: str) -> None:
    assert Workflow(name, state=State).name == name


@pytest.mark.parametrize("state", [dict, State(), None, "State", int, RootModel[list[int]]])
def test_a_state_that_is_no_model_with_fields_is_refused(state: Any) -> None:
    with refused("state must be a pydantic model class with fields"):
        Workflow("flow", state=state)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schema_version": 0}, "schema_version"),
        ({"schema_version": "2"}, "schema_version"),
        ({"schema_version": 1.5}, "schema_version"),
        ({"retention": 90}, "retention must be a positive timedelta"),
        ({"retention": timedelta(days=-1)}, "retention"),
        ({"retention": timedelta.max}, "retention"),
        ({"queue": ""}, "queue name"),
        ({"queue": "a b"}, "queue name"),
        ({"timeout": 30}, "timeout must be a positive timedelta"),
        ({"timeout": timedelta(0)}, "timeout"),
        ({"timeout": timedelta.max}, "timeout"),
        ({"retry": 3}, "retry must be a Retry"),
        ({"retry": False}, "retry must be a Retry"),
        ({"permanent": ValueError}, "permanent must be a list of exception classes"),
        ({"permanent": ["ValueError"]}, "permanent"),
        ({"permanent": [ValueError()]}, "permanent"),
        ({"permanent": None}, "permanent"),
    ],
)
def test_a_bad_option_of_a_workflow_is_refused_where_it_is_declared(options: dict[str, Any], message: str) -> None:
    with refused(message):
        Workflow("flow", state=State, **options)


def test_retention_is_one_for_all_endings_or_one_for_each() -> None:
    day = 86400.0
    one = Workflow("flow", state=State, retention=timedelta(days=1))
    assert one.kept_for == {"cancelled": day, "completed": day, "failed": day}
    each = Workflow("flow", state=State, retention={"completed": timedelta(days=1), "failed": timedelta(0)})
    assert each.kept_for == {"completed": day, "failed": 0.0}
    with refused("there is no 'held'"):
        Workflow("flow", state=State, retention={"held": timedelta(days=1)})
    with refused("retention of failed cases must be a positive timedelta"):
        Workflow("flow", state=State, retention={"failed": 5})  # type: ignore[dict-item]


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "7"])
def test_keep_checkpoints_is_a_whole_number(wrong: Any) -> None:
    with refused("keep_checkpoints must be a whole number from 1 on"):
        Workflow("flow", state=State, keep_checkpoints=wrong)


def test_no_retention_and_none_at_all_are_both_fine() -> None:
    assert Workflow("flow", state=State, retention=timedelta(0)).retention == timedelta(0)
    assert Workflow("flow", state=State).retention is None


# --------------------------------------------------------------------------------------------------------- the state
class Opaque:
    pass


class WithObject(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    fine: int = 0
    connection: Opaque | None = None


class WithFunction(BaseModel):
    hook: Callable[[], None] | None = None


class WithExcluded(BaseModel):
    hidden: int = Field(0, exclude=True)


class NestedObject(BaseModel):
    inner: list[WithObject] = []


class Unresolved(BaseModel):
    other: "NeverDefined | None" = None  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("state", "field"),
    [
        (WithObject, "WithObject.connection"),
        (WithFunction, "WithFunction.hook"),
        (WithExcluded, "WithExcluded.hidden"),
        (NestedObject, "NestedObject.inner"),
        (Unresolved, "Unresolved"),
    ],
)
def test_a_field_that_json_cant_hold_is_named_at_its_model(state: type[BaseModel], field: str) -> None:
    with refused(rf"{field}.* (can't be kept as|excluded from) JSON", at=state):
        Workflow("flow", state=state)


def test_a_model_without_source_is_refused_where_it_is_used() -> None:
    made = create_model("Made", hook=(Callable[[], None], ...))
    with refused("Made.hook"):
        Workflow("flow", state=made)


class Custom(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    it: Annotated[Opaque, PlainValidator(lambda _: Opaque()), PlainSerializer(lambda _: 1, return_type=int)]


class Tree(BaseModel):
    children: list["Tree"] = []


@pytest.mark.parametrize("state", [Custom, Tree])
def test_a_type_that_says_how_it_becomes_json_is_fine(state: type[BaseModel]) -> None:
    assert Workflow("flow", state=state).state is state


# ---------------------------------------------------------------------------------------------------------- the steps
def no_arguments() -> None: ...
def one_argument(state: State) -> None: ...
def three_arguments(state: State, call: Any, more: int) -> None: ...
def keyword_call(state: State, *, call: Any) -> None: ...
def needs_keyword(state: State, call: Any, *, needed: int) -> None: ...


def a_generator(state: State, call: Any) -> Iterator[int]:
    yield 1


async def an_async_generator(state: State, call: Any) -> AsyncIterator[int]:
    yield 1


def logged(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


@logged
@logged
def wrapped_with_one_argument(state: State) -> None: ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (no_arguments, r"must take \(state, call\), but is declared as no_arguments\(\)"),
        (one_argument, "must take"),
        (three_arguments, "must take"),
        (keyword_call, "must take"),
        (needs_keyword, "must take"),
        (wrapped_with_one_argument, r"declared as wrapped_with_one_argument\(state"),
        (a_generator, "is a generator"),
        (an_async_generator, "is a generator"),
    ],
)
def test_a_step_of_the_wrong_shape_is_refused_at_its_own_line(function: Any, message: str) -> None:
    with refused(message, at=inspect.unwrap(function)):
        new().step(function)
    with refused(message, at=inspect.unwrap(function)):
        new().step(name=function.__name__)(functools.partial(function))


class Steps:
    def method(self, state: State, call: Any) -> None: ...
    def short(self, state: State) -> None: ...
    @classmethod
    def of_class(cls, state: State, call: Any) -> None: ...
    @staticmethod
    def static(state: State, call: Any) -> None: ...


class Callable2:
    def __call__(self, state: State, call: Any) -> None: ...


class Callable1:
    def __call__(self, state: State) -> None: ...


class CallableGenerator:
    def __call__(self, state: State, call: Any) -> Iterator[int]:
        yield 1


async def an_async_step(state: State, call: Any) -> None: ...
def defaults(state: State, call: Any = None, more: int = 1, **rest: Any) -> None: ...
def anything(*args: Any) -> None: ...
def with_keyword(state: State, call: Any, *, extra: int = 0) -> None: ...


@pytest.mark.parametrize(
    "function",
    [good, an_async_step, defaults, anything, with_keyword, logged(good), Steps().method, Steps.of_class, Steps.static],
)
def test_whatever_can_be_called_with_state_and_call_is_a_step(function: Any) -> None:
    workflow = new()
    assert workflow.step(function) is function
    assert workflow.first.name == function.__name__
    assert workflow.first.function is function


@pytest.mark.parametrize(
    ("function", "at"),
    [
        (functools.partial(with_keyword, extra=2), with_keyword),
        (Callable2(), Callable2.__call__),
        (lambda state, call: state and call, None),
    ],
)
def test_what_has_no_name_needs_one(function: Any, at: Any) -> None:
    workflow = new()
    with refused("step name ''|step name '<lambda>'", at=at or function):
        workflow.step(function)
    workflow.step(name="named")(function)
    assert workflow.steps["named"].at == line_of(at or function)


@pytest.mark.parametrize(
    ("function", "at", "message"),
    [
        (Steps().short, Steps.short, "must take"),
        (Steps.method, Steps.method, r"must take .* declared as method\(self"),
        (Callable1(), Callable1.__call__, "must take"),
        (CallableGenerator(), CallableGenerator.__call__, "is a generator"),
        (functools.partial(good, None, None), good, "must take"),
    ],
)
def test_methods_partials_and_callable_objects_are_checked_too(function: Any, at: Any, message: str) -> None:
    with refused(message, at=at):
        new().step(name=getattr(function, "__name__", "named"))(function)


@pytest.mark.parametrize("function", ["good", 7, State(), ["a"]])
def test_what_cant_be_called_is_refused_where_it_is_declared(function: Any) -> None:
    with refused(r"a step is a function of \(state, call\), not"):
        new().step(function)


def test_a_builtin_is_refused_where_it_is_declared() -> None:
    with refused(r"'len' must take \(state, call\), but is declared as len\("):
        new().step(len)
    with refused("'max' doesn't say what it takes|'max' must take"):
        new().step(max)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": ""}, "step name ''"),
        ({"name": "two words"}, "step name"),
        ({"name": "x" * 101}, "step name"),
        ({"name": 7}, "step name"),
        ({"timeout": timedelta(0)}, "timeout must be"),
        ({"timeout": timedelta(seconds=-1)}, "timeout must be"),
        ({"timeout": 30}, "timeout must be"),
        ({"timeout": timedelta.max}, "timeout must be"),
        ({"queue": ""}, "queue name ''"),
        ({"queue": 5}, "queue name"),
        ({"retry": 3}, "retry must be a Retry"),
        ({"in_doubt": "verify"}, "in_doubt must be 'retry', 'hold', or a function"),
        ({"in_doubt": None}, "in_doubt"),
        ({"on_exhausted": "retry"}, "on_exhausted must be 'hold' or 'fail'"),
        ({"next": "second"}, "next must be a list of step names"),
        ({"next": 5}, "next must be"),
        ({"next": [good]}, "next"),
        ({"aliases": "former"}, "aliases must be a list"),
        ({"aliases": [""]}, "aliases"),
        ({"aliases": [7]}, "aliases"),
        ({"safe_errors": OSError}, "safe_errors must be a list of exception classes"),
        ({"safe_errors": ["OSError"]}, "safe_errors"),
        ({"permanent": OSError}, "permanent must be"),
        ({"permanent": [OSError()]}, "permanent must be"),
        ({"permanent": [State]}, "permanent must be"),
    ],
)
def test_a_bad_option_of_a_step_is_refused_at_its_own_line(options: dict[str, Any], message: str) -> None:
    with refused(message, at=good):
        new().step(**options)(good)


def test_a_misspelt_option_of_a_step_is_refused_at_its_line_with_those_that_exist() -> None:
    with refused(r"step\(\) has no option 'timout'; did you mean 'timeout'\? Its options: name, retry, timeout, "):
        new().step(timout=timedelta(seconds=3))  # type: ignore[call-overload]
    with refused(r"step\(\) has no option 'colour'\. Its options: .*, max_visits$"):
        new().step(good, colour="red")  # type: ignore[call-overload]


def test_a_misspelt_option_of_a_workflow_is_refused_at_its_line_with_those_that_exist() -> None:
    with refused(r"Workflow\(\) has no option 'versoin'\. Its options: state, schema_version, retention, "):
        Workflow("flow", state=State, versoin=2)  # type: ignore[arg-type]


def test_options_given_beside_the_function_count_too() -> None:
    workflow = new()
    workflow.step(good, name="other", queue="slow")  # type: ignore[call-overload]
    assert (workflow.first.name, workflow.first.queue) == ("other", "slow")


def test_a_step_takes_the_workflows_defaults_and_its_own_options_win() -> None:
    retry = Retry(attempts=2)
    workflow = Workflow(
        "flow", state=State, queue="q", timeout=timedelta(seconds=5), retry=retry, permanent=[ValueError]
    )
    workflow.step(good)
    workflow.step(name="own", queue="r", timeout=timedelta(seconds=6), retry=Retry(), permanent=[KeyError])(good)
    first, own = workflow.steps.values()
    assert (first.queue, first.timeout.seconds, first.retry, first.permanent) == ("q", 5, retry, (ValueError,))
    assert (own.queue, own.timeout.seconds, own.retry.attempts, own.permanent) == ("r", 6, 5, (ValueError, KeyError))
    assert (own.target.step, own.target.queue, own.target.timeout, own.target.in_doubt) == ("own", "r", 6.0, "retry")


# ------------------------------------------------------------------------------------------------- names among steps
def second(state: State, call: Any) -> None:
    """Another sound step."""


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"name": "a"}, {"name": "a"}),
        ({"name": "a"}, {"name": "b", "aliases": ["a"]}),
        ({"name": "a", "aliases": ["b"]}, {"name": "b"}),
        ({"name": "a", "aliases": ["c"]}, {"name": "b", "aliases": ["c"]}),
    ],
)
def test_a_name_or_alias_that_is_taken_is_refused_with_both_lines(first: dict[str, Any], then: dict[str, Any]) -> None:
    workflow = new()
    workflow.step(**first)(good)
    with refused(f"flow has two steps named .* the first is at {line_of(good)}", at=second):
        workflow.step(**then)(second)
    assert list(workflow.steps) == ["a"]


def test_an_unknown_edge_is_refused_at_the_step_once_all_are_declared() -> None:
    workflow = new()
    workflow.step(next=["second", "nowhere"])(good)
    workflow.step(second)
    with refused("'good' names next='nowhere', which 'flow' doesn't have; its steps: good, second", at=good):
        workflow.check()


def test_an_edge_may_lead_forward_back_to_itself_and_to_an_alias() -> None:
    workflow = new()
    workflow.step(next=["good", "former"])(good)
    workflow.step(aliases=["former"], next=["good"])(second)
    workflow.check()
    assert workflow.follow(workflow.first, "former").name == "second"
    assert workflow.follow(workflow.first, "second").name == "second"
    with pytest.raises(UnknownStep, match=r"leads to 'second', but declares next=\['good'\]"):
        workflow.follow(workflow.steps["second"], "second")


def test_a_workflow_without_steps_is_refused_at_its_own_line() -> None:
    workflow = new()
    with pytest.raises(DefinitionError, match="workflow 'flow' has no steps") as refusal:
        workflow.check()
    assert str(refusal.value).startswith(f"{__file__}:{inspect.getsourcelines(new)[1] + 1}: ")


def test_steps_follow_one_another_in_the_order_of_declaration() -> None:
    workflow = new()
    workflow.step(good)
    workflow.step(aliases=["former"])(second)
    assert workflow.first.name == "good"
    following = workflow.after(workflow.first)
    assert following is not None
    assert following.name == "second"
    assert workflow.after(following) is None
    assert workflow.find("former") is following
    assert workflow.find("nowhere") is None


def test_an_unknown_target_is_refused_with_the_steps_that_there_are() -> None:
    workflow = new()
    workflow.step(good)
    with pytest.raises(
        UnknownStep, match="'good' of 'flow' leads to 'nowhere', which doesn't exist; the steps are good"
    ):
        workflow.follow(workflow.first, "nowhere")
