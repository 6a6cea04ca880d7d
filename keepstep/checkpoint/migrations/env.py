"""Alembic's environment: runs the migrations on the connection that `schema.upgrade` brings."""

from alembic import context

from keepstep.checkpoint.tables import SCHEMA, metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, version_table_schema=SCHEMA
)
context.run_migrations()
