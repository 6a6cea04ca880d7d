"""Whether steps were committed in company: what one transaction wrote has one xmin."""

from __future__ import annotations

import sqlalchemy as sa

from keepstep.checkpoint.database import Database

_LARGEST = "select max(n) from (select count(*) n from keepstep.checkpoints where kind = 'step' group by xmin::text) x"


def largest(db: Database) -> int:
    """The most checkpoints of steps that one transaction wrote."""
    return int(db.all(sa.text(_LARGEST))[0][0])
