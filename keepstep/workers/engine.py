"""What a worker's processes have in common: settings, database, workflows, and the bell."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID, uuid4

from keepstep.checkpoint.claims import Claimant
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.recovery import Limits
from keepstep.config.settings import Settings
from keepstep.workers import process
from keepstep.workers.publish import Bell
from keepstep.workers.registry import Registry
from keepstep.workers.tallies import Tallies


@dataclass(kw_only=True)
class Engine:
    """One worker. Made before its pool is forked, so that every child has the same node id."""

    settings: Settings
    db: Database
    registry: Registry
    bell: Bell
    node_id: UUID = field(default_factory=uuid4)
    tallies: Tallies = field(default_factory=Tallies)

    def __post_init__(self) -> None:
        self._known = self.registry.known
        self._joins: dict[str, bool] = {}
        # of transactional steps: apart, because a step may keep one for long
        lease = self.settings.lease_seconds
        self.transactions = Database(self.db.url, pool_size=1, application_name="keepstep step", ping=True, lease=lease)

    def resize(self, threads: int) -> None:
        """Open as many connections as this many threads need: keepstep's own are held for a statement's length only."""
        self.db.resize(min(10, threads + 3))
        self.transactions.resize(threads)

    @property
    def claimant(self) -> Claimant:
        """This very process, as it signs its claims."""
        return Claimant(owner=self.node_id, executor=process.executor(), known=self._known)

    def inline_seconds(self, workflow: str) -> float:
        """For how long a delivery may go on with the next steps of this workflow; 0: not at all."""
        return self.registry.inline_seconds(workflow, self.settings.inline_seconds)

    def may_join(self, name: str) -> bool:
        """Whether a step, named "workflow.step", may run in company with other cases' steps."""
        known = self._joins.get(name)
        if known is None:
            known = self._joins[name] = any(self._may_join(workflow, name) for workflow in self.registry.versions)
        return known

    def _may_join(self, workflow: str, name: str) -> bool:
        step = self.registry.get(workflow).find(name.removeprefix(f"{workflow}."))
        alone = step is None or step.transactional or step.in_doubt != "retry"
        return not alone and name.startswith(f"{workflow}.")

    @property
    def host_id(self) -> str:
        """The host's identity, or the one that the settings give it."""
        return self.settings.host_id or process.host_id()

    @property
    def limits(self) -> Limits:
        """The bounds of the sweep."""
        return Limits(
            rows=self.settings.ring_batch,
            max_crashes=self.settings.max_crashes,
            max_node_deaths=self.settings.max_node_deaths,
            settling=self.settings.settling_seconds,
        )
