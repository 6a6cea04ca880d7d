"""`keepstep dev`: everything starts together, works, and ends together, however it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from keepstep import Client
from keepstep.checkpoint import nodes
from keepstep.dev.ports import free_port, is_free
from tests.acceptance.cli import COMMAND, Cli
from tests.support.eventually import eventually
from tests.support.worker import ROOT


class Dev:
    """One `keepstep dev` and its processes."""

    def __init__(self, home: Path, log: Path):
        self.log, self.flower = log, free_port()
        options = ["--home", str(home), "--flower-port", str(self.flower)]
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [*COMMAND, "--workflows", "tests.flows", "dev", *options],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                cwd=ROOT,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def is_ready(self) -> bool:
        text = self.log.read_text()
        assert self.process.poll() is None, text
        return "dev@" in text and " ready." in text and "Visit me at" in text

    @property
    def exports(self) -> dict[str, str]:
        """The lines that a user pastes into another terminal."""
        return dict(re.findall(r"^  export (\w+)=(\S+)$", self.log.read_text(), re.MULTILINE))

    @property
    def ports(self) -> list[int]:
        urls = self.exports["KEEPSTEP_DATABASE_URL"], self.exports["KEEPSTEP_BROKER_URL"]
        return [self.flower, *(urlsplit(url).port or 0 for url in urls)]

    def processes(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)


@pytest.fixture
def dev(server_home: Path, tmp_path: Path) -> Iterator[Dev]:
    dev = Dev(server_home, tmp_path / "dev.log")
    yield dev
    dev.process.send_signal(signal.SIGTERM)
    dev.process.wait(60)
    print(dev.log.read_text())


def left(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [p for p in processes if lives(p)]


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def is_completed(cli: Cli, thread_id: str) -> bool:
    return bool(cli("show", "ten", thread_id, "--json").json["status"] == "completed")


@pytest.mark.slow
def test_dev_runs_cases_starts_a_killed_worker_again_and_stops_all_on_sigterm(dev: Dev) -> None:
    eventually(dev.is_ready, 40, "the stack is up")
    cli = Cli(dev.exports)
    cli("start", "ten", "D-1")
    eventually(lambda: is_completed(cli, "D-1"), 20)

    worker = next(p for p in dev.processes() if "worker" in p.cmdline() and "watcher.py" not in " ".join(p.cmdline()))
    worker.kill()
    cli("start", "ten", "D-2")
    eventually(lambda: is_completed(cli, "D-2"), 20)

    processes, ports = dev.processes(), dev.ports
    dev.process.send_signal(signal.SIGTERM)
    assert dev.process.wait(30) == 0
    assert left(processes) == []
    assert all(is_free(port) for port in ports)


@pytest.mark.slow
def test_when_dev_says_that_it_is_up_its_worker_is_registered(dev: Dev) -> None:
    eventually(lambda: "keepstep is up" in dev.log.read_text(), 40, "the greeting")
    with Client(dev.exports["KEEPSTEP_DATABASE_URL"], dev.exports["KEEPSTEP_BROKER_URL"]) as client:
        assert [node.workflows["ten"] for node in nodes.everyone(client.db)] == [1]


@pytest.mark.slow
def test_a_second_dev_on_the_same_data_says_at_once_what_it_waits_for(
    dev: Dev, server_home: Path, tmp_path: Path
) -> None:
    eventually(lambda: "keepstep is up" in dev.log.read_text(), 40, "the greeting")
    second = Dev(server_home, tmp_path / "second.log")
    eventually(lambda: "is a second `keepstep dev` open?" in second.log.read_text(), 5, "what it waits for")
    assert second.process.wait(30) == 1
    assert "two would destroy it" in second.log.read_text()
    assert dev.process.poll() is None


@pytest.mark.slow
def test_dev_that_is_killed_leaves_no_process_and_no_port_even_with_a_step_in_flight(dev: Dev) -> None:
    eventually(dev.is_ready, 40, "the stack is up")
    cli = Cli(dev.exports)
    cli("start", "ten", "D-3", "--state", '{"seconds": 60}')
    eventually(lambda: cli("show", "ten", "D-3", "--json").json["step"] == "s5", 20)

    processes, ports = dev.processes(), dev.ports
    assert len(processes) >= 10  # two guardians, two watchers, PostgreSQL's family, Valkey, worker, pool, Flower
    dev.process.kill()
    eventually(lambda: not left(processes), 20, "every process to end")
    assert all(is_free(port) for port in ports)


def test_dev_whose_workflows_cannot_be_imported_says_so_and_leaves_nothing(server_home: Path) -> None:
    ran = Cli({})("--workflows", "no.such.module", "dev", "--home", str(server_home), timeout=60)
    assert ran.code == 1
    assert "no.such.module" in ran.out
    assert {line.split()[0] for line in ran.out.splitlines()} == {"dev", "worker"}
    assert "keepstep is up" not in ran.out
    [line] = ran.err.splitlines()
    assert "the worker ended at once, with exit code 2" in line
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(server_home) in " ".join(p.info["cmdline"] or ())]
