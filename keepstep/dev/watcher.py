"""Run one program, and see to it that nothing of it outlives its owner.

A script of its own, run by `program.py` as `python -P watcher.py OWNER GRACE REPORT COMMAND...`; it is there for as
long as its program, so it imports little. The program gets a session of its own, by which all its processes are found
in the end, also those whose parents have gone. As in guardian.py, `getppid()` tells whether the owner is still there.

SIGTERM, SIGINT and SIGHUP, or the owner's end, ask the program to stop (SIGTERM), and kill it after GRACE seconds.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from types import FrameType

import psutil

POLL = 0.1
"""Seconds between two looks at the owner; signals, and the end of the program, are noticed at once."""

STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(owner: int, grace: float, report: int, command: list[str]) -> int:
    """Run the program until it ends; its exit code, 128 and the signal's number if a signal ended it."""
    inbox = listen()
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    os.write(report, b"%d\n" % program.pid)
    os.close(report)
    deadline: float | None = None
    while program.poll() is None:
        news = os.read(inbox, 512) if select.select([inbox], [], [], POLL)[0] else b""
        if deadline is not None and time.monotonic() > deadline:
            kill_session(program.pid)
        elif deadline is None and (any(number in news for number in STOP) or os.getppid() != owner):
            deadline = time.monotonic() + grace
            program.terminate()
    kill_session(program.pid)
    return program.returncode if program.returncode >= 0 else 128 - program.returncode


def listen() -> int:
    """Return a file descriptor from which the numbers of the signals received can be read."""

    def note(_number: int, _frame: FrameType | None) -> None:
        """Do nothing: Python writes the number to the wake-up descriptor."""

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in (signal.SIGCHLD, *STOP):
        signal.signal(number, note)
    return reader


def kill_session(leader: int) -> None:
    """Kill every process of the session, until there is none; a process that forks meanwhile is found next time."""
    while members := [pid for pid in psutil.pids() if pid != leader and is_member(pid, leader)]:
        for pid in [leader, *members]:
            kill(pid)
        time.sleep(0.01)
    kill(leader)


def is_member(pid: int, session: int) -> bool:
    """Tell whether the process is of this session and still runs; a zombie needs only its parent."""
    try:
        return os.getsid(pid) == session and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, PermissionError, psutil.Error):
        return False


def kill(pid: int) -> None:
    """Kill a process that may have gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
