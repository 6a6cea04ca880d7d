"""An empty database, for those who make the tables themselves."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from keepstep.checkpoint.database import Database
from keepstep.config.settings import postgres_url
from tests.support.servers import Urls


@pytest.fixture
def empty(urls: Urls, admin: Database) -> Iterator[Database]:
    """A database without keepstep's tables."""
    name = f"t_{uuid.uuid4().hex[:12]}"
    admin.run(sa.text(f"create database {name}"), {})
    database = Database(postgres_url(urls.database(name)))
    yield database
    database.dispose()
    admin.run(sa.text(f"drop database {name} with (force)"), {})
