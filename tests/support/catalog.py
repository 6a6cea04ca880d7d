"""Keepstep's tables as PostgreSQL has them, in words that can be compared."""

from __future__ import annotations

import sqlalchemy as sa

from keepstep.checkpoint.database import Database

_RELATIONS = "from pg_class c where c.relnamespace = 'keepstep'::regnamespace"

CATALOG = sa.text(f"""
select format('%s %s %s', c.relkind, c.relname, c.reloptions) as line {_RELATIONS}
union all
select format('column %s.%s %s %s null=%s identity=%s default=%s', c.relname, a.attnum, a.attname,
              format_type(a.atttypid, a.atttypmod), not a.attnotnull, a.attidentity,
              pg_get_expr(d.adbin, d.adrelid))
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
 where c.relnamespace = 'keepstep'::regnamespace and c.relkind = 'r'
union all
select format('constraint %s %s', conname, pg_get_constraintdef(oid)) from pg_constraint
 where connamespace = 'keepstep'::regnamespace
union all
select format('index %s', pg_get_indexdef(c.oid)) {_RELATIONS} and c.relkind = 'i'
union all
select format('function %s', oid::regprocedure) from pg_proc where pronamespace = 'keepstep'::regnamespace
union all
select format('trigger %s', pg_get_triggerdef(t.oid)) from pg_trigger t join pg_class c on c.oid = t.tgrelid
 where c.relnamespace = 'keepstep'::regnamespace and not t.tgisinternal
 order by 1
""")


def catalog(db: Database) -> list[str]:
    """A line for each table, column, constraint, index, function and trigger; and the revision."""
    revision = db.all(sa.text("select version_num from keepstep.alembic_version"))
    return [*(row.line for row in db.all(CATALOG)), *(f"revision {row.version_num}" for row in revision)]
