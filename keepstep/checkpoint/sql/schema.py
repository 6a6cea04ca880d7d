"""The schema's own statements. The tables themselves are made by the migrations."""

from __future__ import annotations

from sqlalchemy import text

# One upgrade at a time.
LOCK = text("select pg_advisory_xact_lock(1801807216)")

# Workers that run meanwhile stand behind a lock that is waited for, so not for long.
PATIENCE = text("set local lock_timeout = '2s'")

# Where it is there already, its owner need not be allowed to create schemas, which `if not exists` would want.
CREATE_SCHEMA = text("""
do $$ begin if to_regnamespace('keepstep') is null then create schema keepstep; end if; end $$
""")

HAS_REVISION = text("select to_regclass('keepstep.alembic_version')")

REVISION = text("select version_num from keepstep.alembic_version")
