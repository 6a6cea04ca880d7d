"""Whether steps were committed in company: what one transaction wrote has one xmin."""

from __future__ import annotations

import sqlalchemy as sa

from keepstep.checkpoint.database import Database

_COMPANIES = sa.text("select count(*) as n from keepstep.checkpoints where kind = 'step' group by xmin::text")


def largest(db: Database) -> int:
    """The most checkpoints of steps that one transaction wrote."""
    return max(_companies(db))


def accompanied(db: Database) -> int:
    """How many steps were committed together with another one."""
    return sum(n for n in _companies(db) if n > 1)


def _companies(db: Database) -> list[int]:
    return [int(row.n) for row in db.all(_COMPANIES)]
