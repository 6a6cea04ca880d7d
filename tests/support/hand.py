"""Claim and commit by hand, as a worker would, statement by statement."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

from keepstep.checkpoint import births, claims, commits
from keepstep.checkpoint.claims import Claim, Claimant, Delivery
from keepstep.checkpoint.commits import Committed
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.recovery import Limits
from keepstep.checkpoint.ring import Ring
from keepstep.steps import state as states
from keepstep.steps.decide import Decision, Returned, View, decide
from keepstep.steps.workflow import Workflow
from tests import flows

LIMITS = Limits(rows=100, max_crashes=3, max_node_deaths=5)
KNOWN = json.dumps({workflow.name: workflow.schema_version for workflow in flows.ALL})
MAX = 10**6


class Hand:
    """A worker without processes: its node and executor are names only."""

    def __init__(self, db: Database, *, executor: str = "1:1", known: str = KNOWN):
        self.db, self.claimant = db, Claimant(owner=uuid4(), executor=executor, known=known)

    def start(self, thread_id: str = "A", workflow: Workflow = flows.ten, state: Any = None) -> Ring:
        ring = births.start(self.db, workflow, thread_id, state or {}, max_state_bytes=MAX).ring
        assert ring is not None, "a case that is new, and not delayed"
        return ring

    def claim(self, ring: Ring | UUID, seq: int = 0, lease: UUID | None = None) -> Claim | None:
        case = ring.case if isinstance(ring, Ring) else ring
        return claims.claim(self.db, Delivery(case=case, seq=seq), self.claimant, lease or uuid4())

    def decide(self, claim: Claim, value: Any = None) -> Decision:
        workflow = next(w for w in flows.ALL if w.name == claim.workflow)
        step = workflow.find(claim.step)
        assert step is not None
        assert claim.state is not None
        view = View(workflow=workflow, step=step, before=claim.state, failures=claim.failures)
        return decide(view, Returned(value=value, copy=states.load(workflow.state, claim.state)))

    def commit(self, claim: Claim, value: Any = None, decision: Decision | None = None) -> Committed | None:
        decision = decision or self.decide(claim, value)
        stored = commits.weigh(claim, decision, max_state_bytes=MAX)
        return commits.commit(self.db, claim, decision, stored, version=1, took=0.1)

    def step(self, ring: Ring, seq: int, value: Any = None) -> Committed | None:
        claim = self.claim(ring, seq)
        assert claim is not None, f"nothing to claim at {seq}"
        return self.commit(claim, value)
