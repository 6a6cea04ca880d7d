"""Upcasters: what brings the JSON of an older schema version to the present one. Pure functions, chained."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel

from keepstep.steps import state as states
from keepstep.steps.chunks import Fetch
from keepstep.steps.definition import check_name, where
from keepstep.steps.errors import BadState, DatabaseUnavailable, DefinitionError, UpcastFailed
from keepstep.steps.log import loading

if TYPE_CHECKING:
    from keepstep.steps.workflow import Workflow

Upcaster = Callable[[Any], Any]
"""JSON of one version -> JSON of the next. It gets a copy of its own, which it may change and return."""

Named = tuple[str, str]
"""What an upcaster is of: "state", or "signal", "item" or "result" with a name."""


STATE: Named = ("state", "")


class Upcasts:
    """The upcasters of one workflow: of its state, and by name of what comes in from elsewhere. version: the present.

    That is the payload of a signal, and the item and the result of a branch step.
    """

    def __init__(self, workflow: str, version: int):
        self._workflow, self._version = workflow, version
        self._of: dict[Named, dict[int, Upcaster]] = {}

    def declare(self, function: Upcaster, from_version: object, at: str, **names: str | None) -> None:
        """Take one upcaster; DefinitionError if it can't be one, or if there is one from this version already.

        names: signal, item or result, one of them at the most: of what it is. None: of the state.
        """
        if type(from_version) is not int or from_version < 1:
            raise DefinitionError(f"{at}: from_version must be a whole number, 1 or more, not {from_version!r}")
        if from_version >= self._version:
            raise DefinitionError(
                f"{at}: an upcaster from version {from_version} leads to {from_version + 1}, and {self._workflow!r} "
                f"has schema_version={self._version}: raise it, or correct from_version"
            )
        _check_function(function, at)
        given = [(kind, check_name(kind, name, at)) for kind, name in names.items() if name is not None]
        if len(given) > 1:
            raise DefinitionError(f"{at}: an upcaster is of one thing: {' or '.join(kind for kind, _ in given)}=")
        of = self._of.setdefault(given[0] if given else STATE, {})
        if from_version in of:
            first = where(of[from_version])
            raise DefinitionError(
                f"{at}: {self._workflow!r} has two upcasters from version {from_version}; the first is at {first}"
            )
        of[from_version] = function

    def check(self, branch_steps: Collection[str], at: str) -> None:
        """DefinitionError for a gap: from the oldest upcaster on, one must lead from each version to the next.

        And for an item or result of a step that isn't among these. Without an upcaster from some version, a payload, an
        item or a result is left as it is.
        """
        of = self._of.get(STATE, {})
        for version in range(self.oldest, self._version):
            if of and version not in of:
                raise DefinitionError(
                    f"{at}: {self._workflow!r} has schema_version={self._version} and upcasters from "
                    f"{', '.join(map(str, sorted(of)))}, but none from version {version}. "
                    "If nothing has to be changed there, let it return what it is given"
                )
        for (kind, name), upcasters in self._of.items():
            if kind in ("item", "result") and name not in branch_steps:
                raise DefinitionError(
                    f"{where(next(iter(upcasters.values())))}: upcast({kind}={name!r}): {self._workflow!r} has no such "
                    f"branch step; it has {', '.join(branch_steps) or 'none'}"
                )

    @property
    def oldest(self) -> int:
        """The oldest version that can be loaded: 1 if there are no upcasters, and states are taken as they are."""
        return min(self._of.get(STATE, {}), default=1)

    def state(self, stored: states.JSON, version: int, _step: str | None = None) -> states.JSON:
        """The state as JSON of the present version; what is stored isn't touched. UpcastFailed says which step failed.

        A workflow without any upcasters takes the states of all versions before as they are. The step, at which the
        case stands, counts for branches only.
        """
        self.refuse_newer(version)
        if version == self._version:
            return stored
        if version < self.oldest:
            raise UpcastFailed(self._workflow, version, self._version, f"the oldest upcaster is from {self.oldest}")
        made: states.JSON = self._chain(STATE, stored, version, self._version)
        return made

    def refuse_newer(self, version: int) -> None:
        """Raise UpcastFailed for a version that this code doesn't know."""
        if version > self._version:
            raise UpcastFailed(self._workflow, version, self._version, "it is newer than this code")

    def payload(self, signal: str, payload: Any, version: int, to: int) -> Any:
        """A signal's payload, from the version of who sent it to that of who asked. UpcastFailed as above."""
        return self.named(("signal", signal), payload, version, to)

    def result(self, _step: str, result: Any, version: int) -> Any:
        """What a case of this workflow came to, as its parent takes it: a child's whole state. UpcastFailed as above.

        The step, at which the parent's fan-out had it begin, counts for branches only.
        """
        return self.state(result, version)

    def named(self, named: Named, value: Any, version: int, to: int | None = None, *, at: str = "") -> Any:
        """What comes in from elsewhere, as version `to` has it, the present one if None. UpcastFailed as above.

        at: its place in the state, for the path.
        """
        end = self._version if to is None else min(to, self._version)
        return self._chain(named, value, version, end, at)

    def has(self, named: Named) -> bool:
        """Whether there is an upcaster of this."""
        return named in self._of

    def _chain(self, named: Named, stored: Any, version: int, to: int, at: str = "") -> Any:
        of = self._of.get(named, {})
        for number in range(version, to):
            if number in of:
                stored = self._one(of[number], stored, number, named, at)
        return stored

    def _one(self, upcaster: Upcaster, stored: Any, number: int, named: Named, at: str) -> Any:
        what = self._workflow if named == STATE else f"{self._workflow} {' '.join(named)}"
        name = getattr(upcaster, "__name__", "the upcaster")
        try:
            made = upcaster(json.loads(json.dumps(stored)))
        except DatabaseUnavailable:  # while it read a log
            raise
        except Exception as error:
            path = states.pointer(error.args[0]) if isinstance(error, KeyError) and error.args else ""
            raised = f"{name}() raised {type(error).__name__}: {error}"
            raise UpcastFailed(what, number, number + 1, raised, path=at + path) from error
        if named == STATE and not isinstance(made, dict):
            raise UpcastFailed(what, number, number + 1, f"{name}() returned a {type(made).__name__}, not an object")
        try:
            states.refuse_what_json_lacks(made)
        except BadState as error:
            returned = f"{name}() returned: {error}"
            raise UpcastFailed(what, number, number + 1, returned, path=at + error.path) from None
        return made


def _check_function(function: Upcaster, at: str) -> None:
    if not callable(function):
        raise DefinitionError(f"{at}: an upcaster is a function, not {function!r}")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise DefinitionError(f"{where(function)}: an upcaster is an ordinary function: it reads and writes JSON only")
    try:
        inspect.signature(function).bind(object())
    except (TypeError, ValueError):
        raise DefinitionError(f"{where(function)}: an upcaster takes one thing, the stored JSON") from None


class Loaded(NamedTuple):
    """A stored state as JSON of the present version, as its model, and as the JSON's text."""

    before: states.JSON
    state: BaseModel
    text: str


def load(
    workflow: Workflow,
    stored: states.JSON,
    version: int,
    text: str | None = None,
    *,
    step: str | None = None,
    fetch: Fetch | None = None,
) -> Loaded:
    """Bring a stored state of any version to the present one. BadState names versions and path.

    text: of what is stored, where it is known. step: where the case stands: a branch's item must be the step's. fetch:
    reads the state's logs.
    """
    with loading(fetch):
        before = workflow.upcasts.state(stored, version, step)
    try:
        text = text if text and before is stored else states.text_of(before, workflow.state.__name__)
        state = states.load(workflow.state, before, text, fetch)
        workflow.check_item(step, state)
        return Loaded(before, state, text)
    except BadState as error:
        present = workflow.schema_version
        upcast = f", upcast to {present}" if version != present else ", as this code's is: no schema_version was raised"
        raise BadState(f"{error} (stored as version {version}{upcast})", path=error.path) from error.__cause__


def why_no_payload(
    workflow: Workflow, stored: states.JSON, version: int, field: str, payload: Any, fetch: Fetch | None = None
) -> str | None:
    """Why a state of an older version could not be loaded with this payload in the field; None if it could.

    None, too, if it can't be loaded without it: then the payload isn't to blame.
    """
    try:
        load(workflow, {**stored, field: payload}, version, fetch=fetch)
    except BadState as error:
        try:
            load(workflow, stored, version, fetch=fetch)
        except BadState:
            return None
        return str(error)
    return None
