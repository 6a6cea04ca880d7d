"""The workflows that this process knows, found in the modules that the user names."""

from __future__ import annotations

import importlib
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from keepstep.checkpoint import codec
from keepstep.steps.branches import Branches
from keepstep.steps.chunks import Fetch
from keepstep.steps.errors import BadSetting, DefinitionError, KeepstepError, UnknownWorkflow
from keepstep.steps.field import why_not
from keepstep.steps.log import loading
from keepstep.steps.upcasts import load, why_no_payload
from keepstep.steps.workflow import Workflow


class Registry:
    """Workflows by name."""

    def __init__(self, workflows: Iterable[Workflow] = ()):
        self._workflows: dict[str, Workflow] = {}
        for workflow in workflows:
            self.add(workflow)

    def add(self, workflow: Workflow) -> None:
        """Take a finished definition; DefinitionError if it isn't sound, or if another one has its name."""
        workflow.check()
        other = self._workflows.setdefault(workflow.name, workflow)
        if other is not workflow:
            raise DefinitionError(
                f"{workflow.at}: there are two workflows named {workflow.name!r}; the other is at {other.at}"
            )
        if workflow.branches is not None and workflow.branches is not workflow:
            self._add_branches(workflow.branches)

    def _add_branches(self, branches: Workflow) -> None:
        """With a workflow come its branch steps, unless a test has put others in their place."""
        other = self._workflows.setdefault(branches.name, branches)
        if not isinstance(other, Branches):
            raise DefinitionError(
                f"{other.at}: a workflow is named {branches.name!r}, as the branches of the one at {branches.at} are"
            )

    def load(self, modules: Iterable[str]) -> None:
        """Import the modules and take every workflow that they define or import."""
        if str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        for name in modules:
            module = _imported(name)
            found = {id(value): value for value in vars(module).values() if isinstance(value, Workflow)}
            if not found:
                raise BadSetting(f"KEEPSTEP_WORKFLOWS names the module {name!r}, which defines no Workflow")
            for workflow in found.values():
                self.add(workflow)

    def get(self, name: str) -> Workflow:
        """The workflow of this name; UnknownWorkflow lists those that are loaded."""
        try:
            return self._workflows[name]
        except KeyError:
            raise UnknownWorkflow(name, self._workflows) from None

    def find(self, name: str) -> Workflow | None:
        """The workflow of this name; None if it isn't loaded."""
        return self._workflows.get(name)

    def inline_seconds(self, workflow: str, default: float) -> float:
        """For how long a delivery may go on with the next steps of this workflow; 0: not at all."""
        known = self._workflows.get(workflow)
        own = None if known is None else known.inline
        return default if own is None else own.total_seconds()

    def is_transactional(self, workflow: str, step: str) -> bool:
        """Whether the step writes to keepstep's own database; False if its code isn't loaded."""
        known = self._workflows.get(workflow)
        found = None if known is None else known.find(step)
        return found is not None and found.transactional

    def version(self, workflow: str) -> int | None:
        """The workflow's schema version; None if its code isn't loaded."""
        known = self._workflows.get(workflow)
        return None if known is None else known.schema_version

    def fits(
        self,
        workflow: str,
        field: str | None,
        payload: object,
        version: int,
        state: Callable[[], Mapping[str, Any]],
        fetch: Fetch,
    ) -> str | None:
        """Why a signal's payload can't be this field of a state of this version; None if it can.

        None, too, if the code isn't loaded or older than the state. state: reads it, if its version is an older one;
        fetch: reads its logs.
        """
        known = self._workflows.get(workflow)
        if field is None or known is None or version > known.schema_version:
            return None
        if version == known.schema_version:
            return why_not(known.state, field, payload)
        return why_no_payload(known, dict(state()), version, field, payload, fetch)

    def upcast_payload(self, workflow: str, signal: str, payload: Any, version: int, to: int) -> Any:
        """A payload of an older version as the workflow's code of version `to` has it. Raises UpcastFailed."""
        known = self._workflows.get(workflow)
        return payload if known is None else known.upcasts.payload(signal, payload, version, to)

    def upcast_result(self, workflow: str, step: str, result: Any, version: int) -> Any:
        """What a branch of this step, or a child, came to, as the loaded code has it. Raises UpcastFailed."""
        known = self._workflows.get(workflow)
        return result if known is None else known.upcasts.result(step, result, version)

    def with_field(
        self, workflow: str, step: str, state: Mapping[str, Any], version: int, field: str, value: Any, fetch: Fetch
    ) -> Mapping[str, Any]:
        """The state of a case at this step, as the loaded code has it, with this value in the field.

        fetch: reads the state's logs. Raises BadState if it can't be loaded, UnknownWorkflow.
        """
        known = self.get(workflow)
        with loading(fetch):
            before = known.upcasts.state(dict(state), version, step)
        return load(known, {**before, field: value}, known.schema_version, step=step, fetch=fetch).before

    def __iter__(self) -> Iterator[Workflow]:
        return iter(self._workflows.values())

    @property
    def versions(self) -> dict[str, int]:
        """Schema versions by name: what this process can load."""
        return {workflow.name: workflow.schema_version for workflow in self}

    @property
    def steps(self) -> dict[str, list[str]]:
        """The names, present and former, of every workflow's steps."""
        return {workflow.name: workflow.step_names for workflow in self}

    @property
    def step_queues(self) -> dict[str, dict[str, str]]:
        """The queue of every workflow's steps."""
        return {workflow.name: {name: step.queue for name, step in workflow.steps.items()} for workflow in self}

    @property
    def known(self) -> str:
        """The versions as the claim takes them."""
        return codec.encode(self.versions)

    @property
    def queues(self) -> tuple[str, ...]:
        """Every queue that a step of these workflows uses."""
        return tuple(sorted({step.queue for workflow in self for step in workflow.steps.values()}))


def _imported(name: str) -> ModuleType:
    """The user's module; BadSetting if it isn't there or breaks, DefinitionError as it is."""
    if not name or name.startswith("."):
        raise BadSetting(f"KEEPSTEP_WORKFLOWS names the module {name!r}, which is no full module name")
    try:
        return importlib.import_module(name)
    except KeepstepError:
        raise
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and (name == missing or name.startswith(missing + ".")):
            raise BadSetting(
                f"KEEPSTEP_WORKFLOWS names the module {name!r}, which can't be found. "
                "Is it installed, or below the current folder?"
            ) from None
        reason = f"{type(error).__name__}: {error}"
        if not isinstance(error, SyntaxError):  # which says where by itself
            reason += _place(error)
        raise BadSetting(f"KEEPSTEP_WORKFLOWS: module {name!r} can't be imported: {reason}") from error


def _place(error: Exception) -> str:
    """Where it was raised, as ` (file.py, line 3)`: the last line of the user's own code, if there is one."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    foreign = (str(Path(__file__).parents[1]), *sysconfig.get_paths().values())
    own = [frame for frame in frames if not frame.filename.startswith(foreign)] or frames[-1:]
    return f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
