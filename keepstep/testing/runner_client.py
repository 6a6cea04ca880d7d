"""The client of a runner: a real one, whose messages go to the runner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keepstep.checkpoint.reads import Case
from keepstep.steps.workflow import Workflow
from keepstep.workers.client import Client
from keepstep.workers.engine import Engine

if TYPE_CHECKING:
    from keepstep.testing.runner import Runner


class RunnerClient(Client):
    """Starts, signals, looks at and steers cases in the runner's database."""

    def __init__(self, runner: Runner, engine: Engine):
        super().__init__(settings=engine.settings, workflows=list(engine.registry))
        self._runner, self._bell = runner, engine.bell

    def wait(self, workflow: str | Workflow, thread_id: str, timeout: float = 60.0) -> Case:
        """Run what is to be done now, then as ever; but there is no use in polling. Raises UnknownCase, WaitTimeout."""
        self._find(workflow, thread_id)
        self._runner.run()
        return super().wait(workflow, thread_id, min(timeout, 0.0))

    def _definition(self, workflow: str | Workflow) -> Workflow:
        """The runner's copy of the workflow, in which steps may be replaced."""
        return self.registry.get(workflow if isinstance(workflow, str) else workflow.name)
