"""A pid is alive only together with its start time."""

import os
import subprocess
import sys

import pytest

from keepstep.workers import process


def test_this_process_is_alive_under_its_own_identity() -> None:
    assert process.identity(os.getpid()) == process.executor()
    assert process.is_alive(process.executor())


def test_a_pid_with_another_start_time_is_another_process() -> None:
    assert not process.is_alive(f"{os.getpid()}:1")


@pytest.mark.parametrize("text", ["", ":", "abc", "abc:1", "-1:5", f"{2**22 + 1}:5", "7"])
def test_what_names_no_process_is_not_alive(text: str) -> None:
    assert not process.is_alive(text)


def test_a_process_that_ended_is_dead_even_before_it_is_reaped() -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    identity = process.identity(child.pid)
    assert identity is not None
    assert process.is_alive(identity)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is a zombie
    assert not process.is_alive(identity)
    assert process.identity(child.pid) is None
    child.communicate()
    assert not process.is_alive(identity)


def test_a_process_that_may_not_be_seen_is_not_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_allowed(pid: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(process.os, "kill", not_allowed)
    assert process.is_alive("999999999:1")
    monkeypatch.undo()
    assert not process.is_alive("999999999:1")
