"""When something is due next, so that the clock can be put forward to it."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from keepstep.checkpoint.database import Database

NOW = sa.text("select clock_timestamp() as now")

# Timers, back-offs, deadlines and reminders that are still to come. `ending`: only those that bring a case nearer to
# its end, so neither hooks that are called again, nor the reminders of a wait without a deadline. `queued`: also when
# the sweep looks at cases that nobody has taken yet. `past`: also what is due already.
_NEXT = sa.text("""
select min(due_at) as due from (
  select h.due_at from keepstep.heads h
   where (h.due_at > clock_timestamp() or :past) and h.due_at < 'infinity'
     and (   (h.status = 'sleeping' and not h.paused)
          or (h.status = 'queued' and not h.paused and :queued)
          or (h.status = 'waiting'
              and not exists (select from keepstep.fans f where f.case_id = h.id and f.fate is null)
              and (not :ending or exists (select from keepstep.waits w
                                           where w.case_id = h.id and w.fate is null and w.deadline is not null))))
  union all
  select due_at from keepstep.hooks where (due_at > clock_timestamp() or :past) and not :ending) soon
""")


def now(db: Database) -> datetime:
    """The database's clock."""
    instant: datetime = db.all(NOW)[0].now
    return instant


def next_due(db: Database, *, ending: bool, queued: bool = False, past: bool = False) -> datetime | None:
    """The next instant at which something happens by itself; None if nothing does.

    ending: only what brings a case nearer to its end. queued: also what waits for a worker. past: also what is due.
    """
    due: datetime | None = db.all(_NEXT, {"ending": ending, "queued": queued, "past": past})[0].due
    return due
