"""Servers of a test's own, which it may flush, kill and restart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from keepstep.checkpoint.database import Database
from keepstep.config.settings import postgres_url
from keepstep.dev.servers import Servers
from tests.support.servers import Urls, make_template


@pytest.fixture
def servers() -> Iterator[Servers]:
    """A pair that nobody shares. Whoever asks for it has its databases, its broker and its workers there."""
    with Servers() as servers:
        make_template(_urls(servers))
        yield servers


@pytest.fixture
def urls(request: pytest.FixtureRequest, urls: Urls) -> Urls:
    return _urls(request.getfixturevalue("servers")) if "servers" in request.fixturenames else urls


@pytest.fixture
def admin(urls: Urls) -> Iterator[Database]:
    admin = Database(postgres_url(urls.postgres), pool_size=1, ping=True)
    yield admin
    admin.dispose()


def _urls(servers: Servers) -> Urls:
    return Urls(postgres=servers.postgres.url, valkey=servers.valkey.url)
