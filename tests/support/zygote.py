"""`keepstep` commands as processes of their own that start at once: forked from one that has imported the libraries.

Most of what a command, or a worker, costs is the start of Python and its imports, and the tests start some hundreds.
What is forked runs `keepstep.cli.main` as `python -m` does, with an environment, a directory and files of its own, and
ends as a process ends. KEEPSTEP_TEST_FRESH=1, as `make crash` has it, starts Python anew for each.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

MAIN = "keepstep.cli.main"
ROOT = Path(__file__).parents[2]
_ROOMS = ("steps", "config", "checkpoint")
"""Of keepstep itself, what doesn't read the environment when it is imported."""
_LIBRARIES = (
    "celery.apps.worker", "celery.bin.worker", "celery.concurrency.prefork", "celery.concurrency.thread",
    "celery.worker.consumer", "kombu.transport.redis", "redis", "click", "rich.table", "rich.console", "billiard.pool",
)  # fmt: skip


class Process(Protocol):
    """A process that was started, as `subprocess.Popen` is one."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...


def fork(
    args: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    stdin: IO[Any] | None = None,
    out: IO[Any],
    err: IO[Any],
    session: bool = False,
) -> Process:
    """Start `keepstep` with these arguments, quickly. env: all of it. session: as the head of one."""
    if os.environ.get("KEEPSTEP_TEST_FRESH"):
        return fresh(args, env=env, cwd=cwd, stdin=stdin, out=out, err=err, session=session)
    with _lock:
        if not _zygotes:
            _zygotes.append(_Zygote())
        return _zygotes[0].fork(args, dict(env), cwd, (stdin, out, err), session=session)


def fresh(
    args: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    stdin: IO[Any] | None = None,
    out: IO[Any],
    err: IO[Any],
    session: bool = False,
    python: Path | str = sys.executable,
) -> Process:
    """Start it as everybody does, by a new Python."""
    command, given = [python, "-m", MAIN, *args], subprocess.DEVNULL if stdin is None else stdin
    return subprocess.Popen(command, env=env, cwd=cwd, stdin=given, stdout=out, stderr=err, start_new_session=session)


class Forked:
    """A process that the zygote has forked, and whose end it tells."""

    def __init__(self, args: Sequence[str], told: socket.socket):
        self.args, self._told = args, told
        self.pid = int(told.recv(16))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, or the negative number of the signal that killed it; None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The same, once it has ended. TimeoutExpired if it hasn't within so many seconds."""
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(list(self.args), timeout or 0)
            self.returncode = int(self._told.recv(16))
            self._told.close()
        return self.returncode

    def send_signal(self, sig: int) -> None:
        """As long as it runs."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, sig)


class _Zygote:
    """The process that forks, as those that ask it see it. It ends with the process that started it."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fd = theirs.fileno()
        command = [sys.executable, "-m", __name__, str(fd)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, pass_fds=[fd], stdin=subprocess.DEVNULL, start_new_session=True
        )
        theirs.close()

    def fork(
        self, args: Sequence[str], env: dict[str, str], cwd: Path, files: Sequence[IO[Any] | None], *, session: bool
    ) -> Forked:
        told, teller = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        order = {"args": list(args), "env": env, "cwd": str(cwd), "session": session}
        with teller, open(os.devnull) as nothing:
            fds = [teller.fileno(), *((file or nothing).fileno() for file in files)]
            socket.send_fds(self._line, [json.dumps(order).encode()], fds)
        return Forked(args, told)


_zygotes: list[_Zygote] = []
_lock = threading.Lock()


# ------------------------------------------------------------------------------------------------- in the zygote itself
def _serve(line: socket.socket) -> None:
    """Fork for each order. Comes back in the forked process alone, when it is ready to run its command."""
    _import_ahead()
    running: dict[int, socket.socket] = {}
    woken, waker = socket.socketpair()
    woken.setblocking(False)
    waker.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    while True:
        ready = select.select([line, woken], [], [])[0]
        if woken in ready:
            woken.recv(4096)
            _tell_ends(running)
        if line in ready:
            order, fds, _, _ = socket.recv_fds(line, 1 << 20, 4)
            if not order:
                sys.exit(0)  # nobody is there any more
            teller = socket.socket(fileno=fds[0])
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for other in (line, woken, waker, teller, *running.values()):
                    other.close()
                _become(json.loads(order), fds[1:])
                return
            for fd in fds[1:]:
                os.close(fd)
            running[pid] = teller
            teller.send(str(pid).encode())


def _tell_ends(running: dict[int, socket.socket]) -> None:
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            teller = running.pop(ended[0])
            with suppress(OSError):  # nobody wants to know
                teller.send(str(os.waitstatus_to_exitcode(ended[1])).encode())
            teller.close()


def _import_ahead() -> None:
    for name in _LIBRARIES:
        importlib.import_module(name)
    for room in _ROOMS:
        package = importlib.import_module(f"keepstep.{room}")
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    assert not any(name.startswith("keepstep.workers.") for name in sys.modules), "each process imports them for itself"
    gc.collect()
    gc.freeze()  # so that a fork shares its pages


def _become(order: dict[str, Any], fds: Sequence[int]) -> None:
    """What a new Python would begin with."""
    if order["session"]:
        os.setsid()
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    given = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [order["cwd"], *given, *(path for path in sys.path[1:] if path not in given)]
    importlib.invalidate_caches()
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.argv = [MAIN, *order["args"]]


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as _theirs:
        _serve(_theirs)
    runpy.run_module(MAIN, run_name="__main__", alter_sys=True)
