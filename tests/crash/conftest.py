"""Servers of a test's own, which it may flush, kill and restart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from keepstep.dev.servers import Servers
from tests.support.servers import Urls, make_template


@pytest.fixture
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    """A pair that nobody shares."""
    with Servers() as servers:
        make_template(Urls(postgres=servers.postgres.url, valkey=servers.valkey.url))
        yield servers
