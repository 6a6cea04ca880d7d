"""Through TLS with a password to the broker, and through PgBouncer in transaction mode to the database."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis
import sqlalchemy as sa

from keepstep import Client
from keepstep.checkpoint.database import Database
from keepstep.config.settings import read_settings
from keepstep.dev.account import account_for, reachable_directory
from tests import flows
from tests.conftest import StartWorker
from tests.support.eventually import eventually
from tests.support.flower import Here, Visitor
from tests.support.pgbouncer import Pooler, binary
from tests.support.tls import Terminator, certificate


@pytest.fixture
def secured(broker_url: str, tmp_path: Path) -> Iterator[tuple[Terminator, str]]:
    """TLS before the broker, and a user with a password; with the URL that names both."""
    parts, user, password = urlsplit(broker_url), f"u{uuid.uuid4().hex[:8]}", "p/a:ss@wörd"
    cert, key = certificate(tmp_path)
    with redis.Redis.from_url(broker_url) as valkey:
        valkey.execute_command("ACL", "SETUSER", user, "on", f">{password}", "~*", "&*", "+@all")
        terminator = Terminator((str(parts.hostname), parts.port or 0), cert, key)
        written = "p%2Fa%3Ass%40w%C3%B6rd"
        yield terminator, f"rediss://{user}:{written}@127.0.0.1:{terminator.port}{parts.path}?ssl_ca_certs={cert}"
        terminator.close()
        valkey.execute_command("ACL", "DELUSER", user)


def test_a_case_runs_through_a_broker_with_tls_and_a_password(
    secured: tuple[Terminator, str], database_url: str, start_worker: StartWorker
) -> None:
    terminator, url = secured
    assert "ssl_cert_reqs=required" in read_settings(broker_url=url).broker_url, "certificates are checked by default"
    start_worker(env={"KEEPSTEP_BROKER_URL": url})
    with Client(database_url, url, workflows=flows.ALL) as client:
        assert client.start("ten", "A", {}).rung, "the message went through TLS"
        assert client.wait("ten", "A", timeout=20).status == "completed"
        assert client.depth("keepstep") == 0
        here = Here(read_settings(database_url=database_url, broker_url=url))
        assert "Redis can't be reached" not in Visitor(here.url).get("/cases").text
        here.stop()
    assert terminator.accepted > 0
    assert terminator.refused == 0, "nobody spoke in plain text"


def test_a_certificate_that_nobody_vouches_for_and_a_wrong_password_are_refused(
    secured: tuple[Terminator, str], database_url: str
) -> None:
    _, url = secured
    for wrong in (url.partition("?")[0], url.replace("p%2Fa", "other")):
        with Client(database_url, wrong, workflows=flows.ALL) as client:
            assert not client.start("ten", f"B{wrong[-1]}", {}).rung
            assert client.depth("keepstep") is None


@pytest.fixture
def pooler(database_url: str) -> Iterator[Pooler]:
    if binary() is None:
        pytest.skip("PgBouncer is not installed: apt-get install pgbouncer")
    home = reachable_directory(account_for(), lasting=False)
    pooler = Pooler(database_url, home)
    yield pooler
    pooler.stop()


def test_cases_run_through_pgbouncer_in_transaction_mode(
    pooler: Pooler, database_url: str, broker_url: str, start_worker: StartWorker, db: Database
) -> None:
    through = {"KEEPSTEP_DATABASE_URL": pooler.url}
    worker = start_worker(
        env={**through, "KEEPSTEP_HEARTBEAT_URL": database_url, "KEEPSTEP_PREPARED_STATEMENTS": "false"},
        concurrency=4,
    )
    with Client(pooler.url, broker_url, workflows=flows.ALL) as client:
        client.start_many("ten", {f"A{number}": {} for number in range(30)})
        client.start("approve", "B", {})
        eventually(lambda: client.get("approve", "B").status == "waiting", 20)
        client.approve("approve", "B", actor="ann")
        for number in range(30):
            assert client.wait("ten", f"A{number}", timeout=30).status == "completed"
        assert client.wait("approve", "B", timeout=20).status == "completed"
    [node] = db.all(sa.text("select lock_works from keepstep.nodes"), {})
    assert node.lock_works, "the heartbeat goes directly, so its session holds the lock"
    for trouble in ("Traceback", "prepared statement", "PREPARE"):
        assert trouble not in worker.log.read_text()


@pytest.mark.slow
def test_a_worker_that_was_not_told_of_the_pooler_goes_without_prepared_statements(
    pooler: Pooler, database_url: str, broker_url: str, start_worker: StartWorker, db: Database
) -> None:
    start_worker(env={"KEEPSTEP_DATABASE_URL": pooler.url}, concurrency=4)
    with Client(pooler.url, broker_url, workflows=flows.ALL) as client:
        client.start_many("ten", {f"A{number}": {} for number in range(20)})
        for number in range(20):
            assert client.wait("ten", f"A{number}", timeout=60).status == "completed"
