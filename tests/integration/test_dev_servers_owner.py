"""The development servers never outlive their owner, however it ends and whoever it runs as."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import psutil
import psycopg2
import pytest
import redis

import keepstep
from keepstep.dev import ports
from keepstep.dev.account import Account, account_for, reachable_directory
from keepstep.dev.errors import NotTheOwnerError
from keepstep.dev.postgres import Postgres
from keepstep.dev.servers import Servers
from keepstep.dev.valkey import Valkey

# Starts both servers, forks a child that lives on, and tells: both ports, the servers' processes, the child, the data.
OWNER = """
import os, signal, sys
from pathlib import Path
from keepstep.dev.servers import Servers
servers = Servers(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
servers.start()
child = os.fork()
if child == 0:
    signal.pause()
print(servers.postgres.port, servers.valkey.port, servers.postgres.pid, servers.valkey.pid, child, servers.base_dir)
sys.stdout.flush()
signal.pause()
"""


def eventually(predicate: Callable[[], Any], timeout: float = 10, message: str = "") -> Any:
    """Return the first true value of the predicate, asked for until the timeout (seconds)."""
    deadline = monotonic() + timeout
    while not (value := predicate()):
        assert monotonic() < deadline, message or f"{predicate} did not come true within {timeout} seconds"
        Event().wait(0.02)
    return value


def is_gone(pid: int) -> bool:
    """Tell whether a process has ended; one that nobody has reaped yet has."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@contextmanager
def owner(*arguments: str, **options: Any) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Run OWNER as a session of its own, and yield it with the words it told; its child is killed in the end."""
    command = [options.pop("python", sys.executable), "-c", OWNER, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, **options) as process:
        assert process.stdout is not None
        told = process.stdout.readline().split()
        try:
            yield process, told
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that PostgreSQL's account can reach, which pytest's own (0700) is not for root."""
    made = reachable_directory(account_for(), lasting=False)
    yield made
    shutil.rmtree(made)


def test_servers_go_with_an_owner_that_is_killed_although_its_forked_child_lives_on() -> None:
    with owner() as (process, told):
        child, data = int(told[4]), Path(told[5])
        process.kill()
        eventually(lambda: all(is_gone(int(pid)) for pid in told[2:4]), message="a server outlived its owner")
        assert not is_gone(child)
        eventually(lambda: all(ports.is_free(int(port)) for port in told[:2]), message="a port is still taken")
        eventually(lambda: not data.exists(), message="temporary data was left behind")


def test_servers_go_when_the_whole_process_group_of_their_owner_is_killed(place: Path) -> None:
    with owner(str(place)) as (process, told):
        os.killpg(process.pid, signal.SIGKILL)
        eventually(lambda: all(is_gone(int(pid)) for pid in told[2:4]), message="a server outlived its owner")
    with Servers(place) as servers:  # at once: waits for what is still closing down
        assert [str(servers.postgres.port), str(servers.valkey.port)] == told[:2]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a signal for the death of a parent")
def test_server_goes_when_its_guardian_is_killed_and_can_be_started_again(place: Path) -> None:
    postgres = Postgres(place / "postgres")
    postgres.start()
    pid = postgres.pid
    psutil.Process(pid).parent().kill()
    eventually(lambda: is_gone(pid), message="the server outlived its guardian")
    postgres.start()
    assert not is_gone(postgres.pid)
    postgres.stop()


def test_fork_of_the_owner_cannot_end_the_server(place: Path) -> None:
    valkey = Valkey(place / "valkey")
    valkey.start()
    child = os.fork()
    if child == 0:
        valkey.stop()
        try:
            valkey.kill()
        except NotTheOwnerError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    with redis.Redis.from_url(valkey.url) as client:
        assert client.ping()
    valkey.stop()


def python_for(account: Account, place: Path) -> str:
    """Return the Python that runs this, or a copy of it in `place` if the account cannot reach it (a 0700 home)."""
    if account.reaches(directory=place, program=Path(sys.executable)):
        return sys.executable
    prefix = Path(sys.base_prefix)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    unneeded = shutil.ignore_patterns("site-packages", "test", "config-*", "idlelib", "ensurepip", "*.a", "__pycache__")
    shutil.copytree(prefix / "lib" / version, place / "lib" / version, ignore=unneeded)
    for library in (prefix / "lib").glob("libpython*.so*"):
        shutil.copy(library, place / "lib")
    (place / "bin").mkdir()
    shutil.copy(os.path.realpath(sys.executable), place / "bin" / version)
    account.take(place)
    return str(place / "bin" / version)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user; this suite runs as an ordinary one")
def test_ordinary_user_can_run_the_servers() -> None:
    nobody = Account(uid=65534, gid=65534)
    place = reachable_directory(nobody, lasting=False)
    paths = [Path(keepstep.__file__).parents[1], Path(psycopg2.__file__).parents[1]]
    try:
        if not all(nobody.reaches(directory=place, file=path) for path in paths):
            pytest.skip(f"another user cannot read all of {paths}, where keepstep and its dependencies are installed")
        python = python_for(nobody, place)
        environment = {
            "PATH": os.defpath,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "LD_LIBRARY_PATH": str(place / "lib"),
        }
        options = {"user": nobody.uid, "group": nobody.gid, "extra_groups": [], "cwd": "/", "env": environment}
        with owner(str(place / "data"), python=python, **options) as (process, told):
            assert [psutil.Process(int(pid)).uids().real for pid in told[2:4]] == [nobody.uid, nobody.uid]
            process.kill()
            eventually(lambda: all(is_gone(int(pid)) for pid in told[2:4]), message="a server outlived its owner")
    finally:
        shutil.rmtree(place)
