"""`keepstep check --against` a hot standby: it reads there, writes nothing, and says what it has read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import sqlalchemy as sa

from keepstep import Client
from keepstep.checkpoint import inflight
from keepstep.checkpoint.database import Database
from keepstep.cli.main import run as command
from keepstep.config.settings import postgres_url
from keepstep.dev.servers import Servers
from keepstep.steps.workflow import Workflow
from keepstep.workers import check as checking
from keepstep.workers.check import check
from keepstep.workers.registry import Registry
from tests import flows
from tests.support.eventually import eventually
from tests.support.servers import TEMPLATE, Urls, make_template
from tests.support.standby import Standby

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replica")]


class Pair:
    """A primary with cases, and its standby. Databases to look at both, and the commands' URLs."""

    def __init__(self, servers: Servers, standby: Standby):
        urls = Urls(postgres=servers.postgres.url, valkey=servers.valkey.url)
        self.standby, self.url = standby, standby.url_for(TEMPLATE)
        self.primary_url = urls.database(TEMPLATE)
        self.client = Client(self.primary_url, urls.valkey, workflows=flows.ALL)
        self.primary = Database(postgres_url(self.primary_url))
        self.replica = Database(postgres_url(self.url))

    def caught_up(self) -> None:
        """Wait until the standby has all that the primary has written."""
        [written] = self.primary.all(sa.text("select pg_current_wal_flush_lsn()::text as lsn"))
        query = sa.text("select pg_last_wal_replay_lsn() >= cast(:lsn as pg_lsn) as there")
        eventually(lambda: self.replica.all(query, {"lsn": written.lsn})[0].there, 20, "the standby follows")


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """`keepstep check --against URL`, in this process."""
    monkeypatch.setenv("KEEPSTEP_WORKFLOWS", "tests.flows")
    monkeypatch.setenv("COLUMNS", "200")

    def run(url: str, *options: str) -> Ran:
        code = command(["check", "--against", url, *options])
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with Servers() as servers:
        make_template(Urls(postgres=servers.postgres.url, valkey=servers.valkey.url))
        standby = Standby(servers.base_dir / "standby", servers.postgres, temporary=True)
        standby.start()
        pair = Pair(servers, standby)
        pair.client.start_many("ten", [(f"A{n}", {}) for n in range(10)])
        yield pair
        pair.replica.dispose()
        pair.primary.dispose()
        pair.client.close()
        standby.stop()


def test_a_standby_is_read_and_nothing_is_written(pair: Pair, run: Run) -> None:
    pair.caught_up()
    before = pair.primary.all(sa.text("select h::text, xmin::text from keepstep.heads h order by id"))
    ran = run(pair.url)
    assert (ran.code, "10 live cases: this code goes on with 10" in ran.out) == (0, True), ran.out
    assert "primary" not in ran.out
    assert "lags" not in ran.out
    checked = check(pair.replica, Registry(flows.ALL))
    assert checked.source.is_replica
    assert not checked.is_late
    assert pair.primary.all(sa.text("select h::text, xmin::text from keepstep.heads h order by id")) == before


def test_a_primary_is_named_as_one_and_checked_all_the_same(pair: Pair, run: Run) -> None:
    ran = run(pair.primary_url)
    assert ran.code == 0
    assert "--against names a primary, not a replica" in ran.out
    assert run(pair.primary_url, "--strict").code == 0
    told = run(pair.primary_url, "--json")
    assert '"replica": false' in told.out


def test_a_replica_that_lags_is_said_to_and_fails_only_a_strict_check(
    pair: Pair, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "LATE", 1.0)
    pair.caught_up()
    pair.replica.all(sa.text("select pg_wal_replay_pause()"))
    try:
        pair.client.start("ten", "while it is paused", {})
        eventually(lambda: check(pair.replica, Registry(flows.ALL)).is_late, 20, "it is behind")
        ran = run(pair.url)
        assert (ran.code, "10 live cases" in ran.out) == (0, True), "judged as it stood then"
        assert "The replica's newest transaction is" in ran.out
        assert "it lags" in ran.out
        assert run(pair.url, "--strict").code == 1
        assert '"late": true' in run(pair.url, "--json").out
    finally:
        pair.replica.all(sa.text("select pg_wal_replay_resume()"))
    pair.caught_up()
    assert "11 live cases" in run(pair.url).out


def test_a_query_that_the_standby_cuts_off_is_asked_again(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a replica does that must not fall behind; and as one does that is restarted."""
    monkeypatch.setattr(inflight, "BATCH", 2)
    pair.caught_up()
    everybody = len(list(inflight.each(pair.replica.all, {})))
    cut = iter([True, False, True])

    class Cutting(Registry):
        def find(self, name: str) -> Workflow | None:
            if next(cut, False):
                query = sa.text("""select pg_terminate_backend(pid) from pg_stat_activity
                                    where application_name = 'cut off' and pid <> pg_backend_pid()""")
                assert len(pair.replica.all(query)) == 1
            return super().find(name)

    reading = Database(postgres_url(pair.url), pool_size=1, application_name="cut off")
    checked = check(reading, Cutting(flows.ALL))
    reading.dispose()
    assert next(cut, "all used") == "all used"
    assert (sum(checked.cases.values()), checked.ready) == (everybody, everybody)


def test_a_replica_without_the_tables_says_so(pair: Pair, run: Run) -> None:
    ran = run(pair.standby.url)
    assert ran.code == 6
    assert "keepstep db upgrade" in ran.err
