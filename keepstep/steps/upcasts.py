"""Upcasters: what brings the JSON of an older schema version to the present one. Pure functions, chained."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel

from keepstep.steps import state as states
from keepstep.steps.definition import check_name, where
from keepstep.steps.errors import BadState, DefinitionError, UpcastFailed

if TYPE_CHECKING:
    from keepstep.steps.workflow import Workflow

Upcaster = Callable[[Any], Any]
"""JSON of one version -> JSON of the next. It gets a copy of its own, which it may change and return."""


class Upcasts:
    """The upcasters of one workflow: of its state, and of its signals' payloads. version: the present one."""

    def __init__(self, workflow: str, version: int):
        self._workflow, self._version = workflow, version
        self._of_state: dict[int, Upcaster] = {}
        self._of_payload: dict[str, dict[int, Upcaster]] = {}

    def declare(self, function: Upcaster, from_version: object, signal: str | None, at: str) -> None:
        """Take one upcaster; DefinitionError if it can't be one, or if there is one from this version already."""
        if type(from_version) is not int or from_version < 1:
            raise DefinitionError(f"{at}: from_version must be a whole number, 1 or more, not {from_version!r}")
        if from_version >= self._version:
            raise DefinitionError(
                f"{at}: an upcaster from version {from_version} leads to {from_version + 1}, and {self._workflow!r} "
                f"has schema_version={self._version}: raise it, or correct from_version"
            )
        _check_function(function, at)
        of = self._of_state
        if signal is not None:
            of = self._of_payload.setdefault(check_name("signal", signal, at), {})
        if from_version in of:
            first = where(of[from_version])
            raise DefinitionError(
                f"{at}: {self._workflow!r} has two upcasters from version {from_version}; the first is at {first}"
            )
        of[from_version] = function

    def check(self, at: str) -> None:
        """DefinitionError for a gap: from the oldest upcaster on, one must lead from each version to the next."""
        for version in range(self.oldest, self._version):
            if self._of_state and version not in self._of_state:
                raise DefinitionError(
                    f"{at}: {self._workflow!r} has schema_version={self._version} and upcasters from "
                    f"{', '.join(map(str, sorted(self._of_state)))}, but none from version {version}. "
                    "If nothing has to be changed there, let it return what it is given"
                )

    @property
    def oldest(self) -> int:
        """The oldest version that can be loaded: 1 if there are no upcasters, and states are taken as they are."""
        return min(self._of_state, default=1)

    def state(self, stored: states.JSON, version: int) -> states.JSON:
        """The state as JSON of the present version; what is stored isn't touched. UpcastFailed says which step failed.

        A workflow without any upcasters takes the states of all versions before as they are.
        """
        if version == self._version:
            return stored
        if version > self._version:
            raise UpcastFailed(self._workflow, version, self._version, "it is newer than this code")
        if version < self.oldest:
            raise UpcastFailed(self._workflow, version, self._version, f"the oldest upcaster is from {self.oldest}")
        return self._chain(self._of_state, stored, version, self._version) if self._of_state else stored

    def payload(self, signal: str, payload: Any, version: int, to: int) -> Any:
        """A signal's payload, from the version of who sent it to that of who asked. UpcastFailed as above.

        Versions without an upcaster for this signal leave it as it is.
        """
        of = self._of_payload.get(signal)
        return payload if of is None else self._chain(of, payload, version, min(to, self._version), signal)

    def _chain(self, of: Mapping[int, Upcaster], stored: Any, version: int, to: int, signal: str | None = None) -> Any:
        for number in range(version, to):
            if number in of:
                stored = self._one(of[number], stored, number, signal)
        return stored

    def _one(self, upcaster: Upcaster, stored: Any, number: int, signal: str | None) -> Any:
        what = f"{self._workflow} signal {signal}" if signal else self._workflow
        name = getattr(upcaster, "__name__", "the upcaster")
        try:
            made = upcaster(json.loads(json.dumps(stored)))
        except Exception as error:
            path = states.pointer(error.args[0]) if isinstance(error, KeyError) and error.args else ""
            raised = f"{name}() raised {type(error).__name__}: {error}"
            raise UpcastFailed(what, number, number + 1, raised, path=path) from error
        if signal is None and not isinstance(made, dict):
            raise UpcastFailed(what, number, number + 1, f"{name}() returned a {type(made).__name__}, not an object")
        try:
            states.refuse_what_json_lacks(made)
        except BadState as error:
            raise UpcastFailed(what, number, number + 1, f"{name}() returned: {error}", path=error.path) from None
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


def load(workflow: Workflow, stored: states.JSON, version: int, text: str | None = None) -> Loaded:
    """Bring a stored state of any version to the present one. BadState names versions and path.

    text: of what is stored, where it is known.
    """
    before = workflow.upcasts.state(stored, version)
    try:
        text = text if text and before is stored else states.text_of(before, workflow.state.__name__)
        return Loaded(before, states.load(workflow.state, before, text), text)
    except BadState as error:
        present = workflow.schema_version
        upcast = f", upcast to {present}" if version != present else ", as this code's is: no schema_version was raised"
        raise BadState(f"{error} (stored as version {version}{upcast})", path=error.path) from error.__cause__


def why_no_payload(workflow: Workflow, stored: states.JSON, version: int, field: str, payload: Any) -> str | None:
    """Why a state of an older version could not be loaded with this payload in the field; None if it could.

    None, too, if it can't be loaded without it: then the payload isn't to blame.
    """
    try:
        load(workflow, {**stored, field: payload}, version)
    except BadState as error:
        try:
            load(workflow, stored, version)
        except BadState:
            return None
        return str(error)
    return None
