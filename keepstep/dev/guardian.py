"""Start one server, and see to it that it does not outlive its owner.

A script of its own, run by `server.py` as `python -I -S guardian.py OWNER POLITE GRACE ACCOUNT DOOMED COMMAND...`.
It is there for as long as its server, so it imports little, and from the standard library only.

How it notices that the owner is gone: the guardian is the owner's child, so `getppid()` changes as soon as the owner
ends, however it ends, and can never be fooled by a process number used again. A pipe from the owner is no good: any
child that the owner forks (Celery's prefork pool does) holds a copy of its write end and keeps it open. Nor is the
parent-death signal of Linux, which follows the thread that forked rather than the process; it only serves the other
way round here, where the parent is this single-threaded guardian.

What it listens to: SIGTERM, SIGINT and SIGHUP ask the server to stop politely and kill it when the grace is over;
SIGUSR1 kills the server's whole tree at once. When the server has ended, so does the guardian.
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType

# Seconds between two looks at the owner; signals, and the end of the server, are noticed at once.
POLL = 0.2

KILL_TREE = signal.SIGUSR1
STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def server_environment() -> dict[str, str]:
    """Return the environment for server programs: nothing of it may point them elsewhere or change their words."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return kept | {"LC_ALL": "C", "TZ": "UTC"}


def main(owner: int, polite: int, grace: float, account: str, doomed: str, command: list[str]) -> None:
    """Run the server until it ends, its owner ends, or the owner says so.

    `account` is "uid:gid" to run it as, or empty; `doomed` is a directory to remove if the owner went without a stop,
    or empty; `grace` is the number of seconds between the polite signal and the kill.
    """
    inbox = listen()
    if os.getppid() != owner:
        return
    server = spawn(command, account)
    with contextlib.suppress(BrokenPipeError):  # the owner is gone already
        os.write(1, b"%d\n" % server)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    deadline: float | None = None
    while os.waitpid(server, os.WNOHANG)[0] == 0:
        news = os.read(inbox, 512) if select.select([inbox], [], [], POLL)[0] else b""
        if KILL_TREE in news or (deadline is not None and time.monotonic() > deadline):
            kill_tree(server)
        elif deadline is None and (any(stop in news for stop in STOP) or os.getppid() != owner):
            deadline = time.monotonic() + grace
            os.kill(server, polite)
            os.kill(server, signal.SIGCONT)  # a server that somebody has stopped could not heed it
    if doomed and os.getppid() != owner:
        remove(doomed)


def listen() -> int:
    """Return a file descriptor from which the numbers of the signals received can be read."""

    def note(_number: int, _frame: FrameType | None) -> None:
        """Do nothing: Python writes the number to the wake-up descriptor."""

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in (signal.SIGCHLD, KILL_TREE, *STOP):
        signal.signal(number, note)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return reader


def spawn(command: list[str], account: str) -> int:
    """Start the server, logging to our standard error, and return its process id."""
    guardian = os.getpid()
    die_with_parent = parent_death_signal()  # loaded before the change of account, which may make Python unreadable
    server = os.fork()
    if server:
        return server
    try:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.dup2(2, 1)
        os.umask(0o077)
        if account:
            uid, gid = map(int, account.split(":"))
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)
        die_with_parent()  # after setuid, which would clear it
        if os.getppid() == guardian:
            os.execve(command[0], command, server_environment())
    except OSError as error:
        os.write(2, f"{command[0]} cannot be run: {error}\n".encode())
    finally:
        os._exit(127)


def parent_death_signal() -> Callable[[], object]:
    """Return a call that has the calling process killed when its parent dies; on other systems than Linux, a no-op."""
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return lambda: None
    return lambda: prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def kill_tree(server: int) -> None:
    """Kill the server and all that descend from it; PostgreSQL's children are groups of their own, so killpg misses."""
    os.kill(server, signal.SIGSTOP)  # it forks no more while its children are being counted
    for pid in [*descendants(server), server]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def descendants(root: int) -> list[int]:
    """Return the process ids of the root's children, their children, and so on."""
    children: dict[int, list[int]] = {}
    for pid, parent in processes():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    queue = [root]
    while queue:
        young = children.get(queue.pop(), [])
        found += young
        queue += young
    return found


def processes() -> Iterator[tuple[int, int]]:
    """Yield (process id, parent's id) of all processes: from /proc, or from ps where there is none (macOS)."""
    if not os.path.exists("/proc/self/stat"):
        with os.popen("ps -A -o pid=,ppid=") as listing:
            yield from ((int(pid), int(parent)) for pid, parent in map(str.split, listing))
        return
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:
                yield int(name), int(stat.read().rpartition(b")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue


def remove(doomed: str) -> None:
    """Remove a directory, and the one that holds it if nothing else is left in there."""
    import shutil

    shutil.rmtree(doomed, ignore_errors=True)
    try:
        os.rmdir(os.path.dirname(doomed))
    except OSError:
        return


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4], sys.argv[5], sys.argv[6:])
