"""Who a process is, and whether it still lives. A pid alone is reused; a pid with its start time is not."""

from __future__ import annotations

import os
import socket
from functools import lru_cache
from pathlib import Path

import psutil

HIDDEN = "hidden"
"""The start of a process of another user that may not be seen: only the lease can judge it, so it counts as alive."""


def executor() -> str:
    """This process as "pid:start"."""
    return _identity(os.getpid())


@lru_cache(maxsize=64)
def _identity(pid: int) -> str:
    return f"{pid}:{_started(pid)}"


def identity(pid: int) -> str | None:
    """Another process of this host as "pid:start"; None if there is none, or if it is dead and not yet reaped."""
    started = _started(pid)
    return None if started is None else f"{pid}:{started}"


def is_alive(process: str) -> bool:
    """Whether the process "pid:start" of this very host still runs."""
    pid, _, started = process.partition(":")
    return pid.isascii() and pid.isdigit() and started != "" and _started(int(pid)) in (started, HIDDEN)


@lru_cache(maxsize=1)
def host_id() -> str:
    """Where a pid means something: the boot and the pid namespace. Not the hostname, which containers share."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return f"{socket.gethostname()}/{psutil.boot_time():.0f}"


def _started(pid: int) -> str | None:
    """The kernel's start time of a live process: clock ticks since boot, which no change of the clock moves."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        if not Path("/proc/self/stat").exists():
            return _started_by_psutil(pid)
        return HIDDEN if _exists(pid) else None
    except OSError:
        return None
    state, *fields = stat[stat.rindex(")") + 2 :].split()
    return None if state in "ZXx" else fields[18]


def _exists(pid: int) -> bool:
    """Whether there is such a process, though /proc doesn't show it (hidepid, systemd's ProtectProc)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def _started_by_psutil(pid: int) -> str | None:
    try:
        found = psutil.Process(pid)
        return None if found.status() == psutil.STATUS_ZOMBIE else f"{found.create_time():.2f}"
    except psutil.Error:
        return None
