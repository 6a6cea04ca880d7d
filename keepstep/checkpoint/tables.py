"""The tables, all in the PostgreSQL schema `keepstep`, so that they never collide with the application's own.

cases        who it is: one row a case, for ever (until retention)
heads        where it stands: one row a live case, updated twice a step
checkpoints  what each step changed: insert-only
attempts     what failed, crashed, timed out or came late
calls        recorded calls inside of steps, with their results
signals      what was sent to a case
audit        what operators did, and why
hooks        hooks that have to be called
waits        what a case waits, or waited, for
fans         fan-outs of a case, and what became of them
branches     the list that a fan-out works off: an item for each branch
nodes        the workers, with their heartbeat
codes        what code each of them ran; it outlives the node
blobs        large values of a case, once each
erasures     what is left of a case that was erased
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

from keepstep.checkpoint.branch_tables import branch_tables
from keepstep.checkpoint.hook_table import hook_table
from keepstep.checkpoint.node_tables import node_tables
from keepstep.checkpoint.storage_tables import storage_tables
from keepstep.steps.moves import LIVE, MOVES, TERMINAL, Status

SCHEMA = "keepstep"
metadata = sa.MetaData(schema=SCHEMA)

_instant = sa.DateTime(timezone=True)
_LATELY = {"pages_per_range": "16", "autosummarize": "off"}  # for metrics; costs an insert next to nothing
# so often that what vacuum hasn't summarized yet, and is read whole, stays small
_SUMMARIZED = {"autovacuum_vacuum_insert_scale_factor": "0", "autovacuum_vacuum_insert_threshold": "100000"}


def _one_of(column: str, values: frozenset[str]) -> str:
    return f"{column} in ({', '.join(repr(str(v)) for v in sorted(values))})"


# a case that fails writes none: it ends at its last good one
_CHECKPOINTED = frozenset(s for m in MOVES.values() if m.checkpoint for s in m.targets if s is not Status.FAILED)

cases = sa.Table(
    "cases",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("run", UUID, nullable=False),
    sa.Column("workflow", sa.Text, nullable=False),
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.Column("parent", UUID),  # of a branch: the case that fanned out, the checkpoint that did, and its place there
    sa.Column("parent_seq", sa.Integer),
    sa.Column("branch", sa.Integer),
    sa.Column("tags", JSONB),
    sa.Column("input", sa.JSON, nullable=False),
    sa.Column("retention", JSONB),  # seconds after the end, by final status; one that isn't there: for ever
    sa.Column("secrets", ARRAY(sa.Text)),  # where the state has secret fields, as JSON pointers
    sa.Column("created_at", _instant, nullable=False, server_default=sa.func.clock_timestamp()),
    sa.Column("finished_at", _instant),
    sa.Column("expires_at", _instant),
    sa.Column("hooks", ARRAY(sa.Text)),  # the events that its workflow had hooks for when it started
    sa.Column("queue", sa.Text),  # the queue that the start chose for all steps
    sa.Column("priority", sa.SmallInteger),  # of its messages, 0 to 9
    sa.Column("status", sa.Text),  # the final one; NULL while a head exists
    sa.Column("error", sa.JSON),
    sa.CheckConstraint("workflow <> '' and thread_id <> ''", name="cases_named"),
    sa.CheckConstraint("priority between 0 and 9", name="cases_priority"),
    sa.CheckConstraint("num_nulls(parent_seq, branch) in (0, 2)", name="cases_branch_of"),
    sa.CheckConstraint(_one_of("status", TERMINAL), name="cases_final_status"),
    sa.CheckConstraint("(status is null) = (finished_at is null)", name="cases_finished"),
    sa.Index("cases_thread", "workflow", "thread_id", unique=True),
    # one case for each branch, whoever makes it
    sa.Index(
        "cases_branch",
        *("parent", "parent_seq", "branch"),
        unique=True,
        postgresql_where=sa.text("parent is not null"),
    ),
    # those that keep a join waiting, or that fail it
    sa.Index(
        "cases_branches_open",
        *("parent", "parent_seq", "status"),
        postgresql_where=sa.text("parent is not null and (status is null or status in ('failed', 'cancelled'))"),
    ),
    sa.Index("cases_expire", "expires_at", postgresql_where=sa.text("expires_at is not null")),
    sa.Index("cases_parent", "parent", postgresql_where=sa.text("parent is not null")),
    sa.Index("cases_tags", "tags", postgresql_using="gin"),
    sa.Index("cases_created", "created_at", "id"),
    sa.Index("cases_begin", "thread_id", postgresql_ops={"thread_id": "text_pattern_ops"}),  # in any collation
    sa.Index("cases_ended", "status", "created_at", "id", postgresql_where=sa.text("status is not null")),
)

heads = sa.Table(
    "heads",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("workflow", sa.Text, nullable=False),
    sa.Column("seq", sa.Integer, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("paused", sa.Boolean, nullable=False, server_default=sa.false()),
    # the next step, as much of it as a node without its code must know
    sa.Column("step", sa.Text, nullable=False),
    sa.Column("queue", sa.Text, nullable=False),
    sa.Column("timeout", sa.Double, nullable=False),  # seconds
    sa.Column("in_doubt", sa.Text, nullable=False),
    sa.Column("heartbeat_timeout", sa.Double),  # seconds
    sa.Column("schema_version", sa.Integer, nullable=False),
    # the attempt that holds the lease
    sa.Column("lease", UUID),
    sa.Column("owner", UUID),
    sa.Column("executor", sa.Text),  # "pid:start" of the process on the owner's host
    sa.Column("deadline", _instant),
    sa.Column("heartbeat_due", _instant),  # when it must have said that it goes on
    sa.Column("detail", sa.JSON),  # what the step said of itself last, for its next attempt
    sa.Column("doubt", UUID),  # the lease of the attempt of which nobody knows whether its call took effect
    sa.Column("attempt", sa.Integer, nullable=False, server_default="0"),
    sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
    sa.Column("crashes", sa.Integer, nullable=False, server_default="0"),
    sa.Column("node_deaths", sa.Integer, nullable=False, server_default="0"),
    sa.Column("deferrals", sa.Integer, nullable=False, server_default="0"),
    sa.Column("verifications", sa.Integer, nullable=False, server_default="0"),  # that came to nothing
    # when the sweep looks at it again, on a coarse grid while it is busy: the only indexed column that changes
    sa.Column("due_at", _instant, nullable=False),
    sa.Column("entered_at", _instant, nullable=False, server_default=sa.func.clock_timestamp()),
    sa.Column("snapshot_seq", sa.Integer, nullable=False),
    sa.Column("weight", sa.Integer, nullable=False, server_default="0"),
    sa.Column("reason", sa.JSON),
    sa.Column("pinned_queue", sa.Text),  # as in cases, where the hot path need not look
    sa.Column("priority", sa.SmallInteger),
    sa.CheckConstraint("priority between 0 and 9", name="heads_priority"),
    sa.CheckConstraint(_one_of("status", LIVE), name="heads_status"),
    sa.CheckConstraint("(status = 'running') = (lease is not null)", name="heads_lease"),
    sa.CheckConstraint("lease is null or (owner is not null and deadline is not null)", name="heads_owner"),
    sa.CheckConstraint("seq >= snapshot_seq and snapshot_seq >= 0 and weight >= 0", name="heads_chain"),
    sa.CheckConstraint("step <> '' and queue <> '' and timeout > 0", name="heads_step"),
    sa.CheckConstraint("status <> 'held' or reason is not null", name="heads_reason"),
    sa.Index("heads_due", "due_at"),
    postgresql_with={"fillfactor": "40"},
)

checkpoints = sa.Table(
    "checkpoints",
    metadata,
    sa.Column("case_id", UUID, primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("step", sa.Text, nullable=False),  # what wrote it: a step's name, or a signal's
    sa.Column("status", sa.Text, nullable=False),  # where the case stood after it
    sa.Column("target", sa.Text),  # the step that comes next
    sa.Column("lease", UUID),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("node", UUID),
    sa.Column("schema_version", sa.Integer, nullable=False),
    sa.Column("is_snapshot", sa.Boolean, nullable=False),
    sa.Column("payload", sa.JSON, nullable=False),
    sa.Column("key_read", sa.Boolean),  # whether the step's code asked for its idempotency key
    sa.Column("cost", sa.JSON),  # what the step says that its call cost
    sa.Column("back_to", sa.Integer),  # of a rewind: the seq it went back to; of a restart: -1, before all
    sa.Column("started_at", _instant),
    sa.Column("at", _instant, nullable=False, server_default=sa.func.clock_timestamp()),
    sa.CheckConstraint("seq >= 0 and (seq > 0 or is_snapshot)", name="checkpoints_begin"),
    sa.CheckConstraint(
        "kind in ('start', 'step', 'verify', 'signal', 'timeout', 'join', 'skip', 'rewind', 'fork')",
        name="checkpoints_kind",
    ),
    sa.CheckConstraint(_one_of("status", _CHECKPOINTED), name="checkpoints_status"),
    sa.CheckConstraint("back_to is null or back_to between -1 and seq - 1", name="checkpoints_back_to"),
    sa.Index("checkpoints_at", "at", postgresql_using="brin", postgresql_with=_LATELY),
    sa.Index("checkpoints_rewinds", "case_id", "seq", postgresql_where=sa.text("back_to is not null")),
    postgresql_with=_SUMMARIZED,
)

attempts = sa.Table(
    "attempts",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
    sa.Column("case_id", UUID, nullable=False),
    sa.Column("seq", sa.Integer, nullable=False),
    sa.Column("step", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("lease", UUID),
    sa.Column("node", UUID),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("error", sa.JSON),
    sa.Column("cost", sa.JSON),
    sa.Column("started_at", _instant),  # when it was claimed
    sa.Column("at", _instant, nullable=False, server_default=sa.func.clock_timestamp()),
    sa.CheckConstraint(
        "outcome in ('raised', 'held', 'failed', 'deferred', 'crashed', 'node_died', 'timed_out', 'orphaned', "
        "'released', 'late', 'in_doubt', 'not_done')",
        name="attempts_outcome",
    ),
    sa.Index("attempts_case", "case_id", "seq"),
    sa.Index("attempts_at", "at", postgresql_using="brin", postgresql_with=_LATELY),
    postgresql_with=_SUMMARIZED,
)

calls = sa.Table(
    "calls",
    metadata,
    sa.Column("case_id", UUID, primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("step", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("key", UUID, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),  # of its arguments
    sa.Column("attempts", sa.Integer, nullable=False, server_default="1"),
    sa.Column("lease", UUID, nullable=False),  # of the attempt that called last
    sa.Column("result", sa.JSON),  # NULL while nobody knows it: a result is wrapped in a list
    sa.Column("cost", sa.JSON),
    sa.Column("begun_at", _instant, nullable=False, server_default=sa.func.clock_timestamp()),
    sa.Column("done_at", _instant),
    sa.CheckConstraint("name <> ''", name="calls_named"),
    sa.CheckConstraint("(result is null) = (done_at is null)", name="calls_done"),
)

_UNUSED = "consumed_seq is null and refused is null and counted_seq is null"

signals = sa.Table(
    "signals",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
    sa.Column("case_id", UUID, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("payload", sa.JSON, nullable=False),
    sa.Column("actor", sa.Text),
    sa.Column("dedupe_key", sa.Text),
    sa.Column("sent_at", _instant, nullable=False, server_default=sa.func.clock_timestamp()),
    sa.Column("consumed_seq", sa.Integer),
    sa.Column("stream", sa.Boolean, nullable=False, server_default=sa.false()),  # a message, not a decision
    sa.Column("digest", sa.Text),  # of what was shown to whoever decided
    sa.Column("counted_seq", sa.Integer),  # the wait that counted it as one of several votes
    sa.Column("schema_version", sa.Integer),  # of the sender's code, or of the case when it came
    sa.Column("refused", sa.Text),  # why it will never be consumed: it came late, or doesn't fit the wait
    sa.CheckConstraint("name <> ''", name="signals_named"),
    sa.CheckConstraint("consumed_seq is null or refused is null", name="signals_fate"),
    sa.Index("signals_pending", "case_id", "name", unique=True, postgresql_where=sa.text(f"{_UNUSED} and not stream")),
    sa.Index(
        "signals_dedupe",
        *("case_id", "name", "stream", "dedupe_key"),
        unique=True,
        postgresql_where=sa.text("dedupe_key is not null and refused is null"),
    ),
    sa.Index("signals_case", "case_id", "id"),
    # a case may have a hundred thousand messages of a stream beside its few decisions
    sa.Index("signals_decisions", "case_id", "name", "id", postgresql_where=sa.text("not stream and refused is null")),
    sa.Index("signals_unused", "case_id", "name", "stream", "id", postgresql_where=sa.text(_UNUSED)),
)

waits = sa.Table(
    "waits",
    metadata,
    sa.Column("case_id", UUID, primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("into_field", sa.Text),
    sa.Column("then_target", sa.JSON),
    sa.Column("payload_schema", sa.JSON),
    sa.Column("prompt", sa.JSON),
    sa.Column("deadline", _instant),
    sa.Column("on_timeout", sa.JSON),
    sa.Column("default_payload", sa.JSON),  # what the deadline delivers, instead of on_timeout
    sa.Column("need_all", sa.Boolean, nullable=False, server_default=sa.false()),  # with the other waits of its seq
    sa.Column("stream", sa.Boolean, nullable=False, server_default=sa.false()),  # takes the oldest message
    sa.Column("approvers", sa.SmallInteger, nullable=False, server_default="1"),  # different actors that must agree
    sa.Column("digest", sa.Text),  # of the prompt and the payload schema: what a decision is about
    sa.Column("remind_every", sa.Double),  # seconds
    sa.Column("remind_at", _instant),
    sa.Column("opened_at", _instant, nullable=False, server_default=sa.func.clock_timestamp()),
    sa.Column("closed_at", _instant),
    sa.Column("fate", sa.Text),  # NULL while open
    sa.CheckConstraint("fate in ('decided', 'expired', 'dropped')", name="waits_fate"),
    sa.CheckConstraint("(fate is null) = (closed_at is null)", name="waits_closed"),
    sa.CheckConstraint("approvers >= 1", name="waits_approvers"),
    sa.Index("waits_open", "opened_at", postgresql_where=sa.text("fate is null")),
)

audit = sa.Table(
    "audit",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
    sa.Column("case_id", UUID, nullable=False),
    sa.Column("verb", sa.Text, nullable=False),
    sa.Column("actor", sa.Text),
    sa.Column("reason", sa.Text),
    sa.Column("detail", sa.JSON),
    sa.Column("at", _instant, nullable=False, server_default=sa.func.clock_timestamp()),
    sa.CheckConstraint("verb <> ''", name="audit_verb"),
    sa.Index("audit_case", "case_id", "id"),
)

blobs, erasures = storage_tables(metadata)
hooks = hook_table(metadata)
fans, branches = branch_tables(metadata)
nodes, codes = node_tables(metadata)
