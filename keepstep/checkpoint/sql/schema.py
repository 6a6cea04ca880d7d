"""The schema's own statements. The tables themselves are made by the migrations."""

from __future__ import annotations

from sqlalchemy import text

# One upgrade at a time.
LOCK = text("select pg_advisory_xact_lock(1801807216)")

CREATE_SCHEMA = text("create schema if not exists keepstep")

HAS_REVISION = text("select to_regclass('keepstep.alembic_version')")

REVISION = text("select version_num from keepstep.alembic_version")
