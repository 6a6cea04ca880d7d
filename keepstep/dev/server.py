"""One development server: its data, its port, its guardian, and the way it starts and stops.

Where the data is, there are also `lock`, `port` and `server.log`. The lock is an flock on an open file that guardian
and server inherit: it is free exactly when no process that could write the data is left, however they went.
"""

import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from keepstep.dev import flock, guardian, ports
from keepstep.dev.account import Account
from keepstep.dev.errors import (
    DataInUseError,
    NotTheOwnerError,
    PortTakenError,
    ServerDidNotStartError,
    ServerNotRunningError,
)

# Seconds. A crash recovery counts as starting; the grace is what the guardian gives a server that is asked to stop.
START_TIMEOUT = 60.0
GRACE = 10.0
LOCK_TIMEOUT = GRACE + 5
PORT_PATIENCE = 2.0
POLL = 0.02

PORT_ATTEMPTS = 10
LOG_LINES = 20


class Server(ABC):
    """A server on 127.0.0.1 that belongs to the process which started it and ends when that process ends.

    Starting is idempotent, and works on data whose server was killed. The port stays the same for the same data; a
    port whose URL this object has handed out is kept, or start() raises PortTakenError. In a fork of the owner only
    the URL may be used: stop() does nothing there, and all else raises NotTheOwnerError.
    """

    name: ClassVar[str]
    polite: ClassVar[signal.Signals]

    def __init__(
        self,
        data: Path,
        *,
        settings: Mapping[str, str] | None = None,
        temporary: bool = False,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        """Describe a server on this data, which need not exist yet; settings go over the built-in ones.

        Temporary data is removed, if the owner ends without a stop, together with its parent if that is then empty.
        tell: gets a line when a start has to wait.
        """
        self.data = Path(data).absolute()
        self.home = self.data
        self._settings = dict(settings or {})
        self._temporary = temporary
        self._tell = tell or (lambda _: None)
        self._owner: int | None = None
        self._guardian: subprocess.Popen[bytes] | None = None
        self._pid: int | None = None
        self._port: int | None = None

    @property
    def port(self) -> int:
        """Return the port, which stays known while the server is down."""
        if self._port is None:
            raise ServerNotRunningError(server=self.name, asked="port")
        return self._port

    @property
    def pid(self) -> int:
        """Return the process id of the server's first process."""
        if self._pid is None or not self.running:
            raise ServerNotRunningError(server=self.name, asked="pid")
        return self._pid

    @property
    def running(self) -> bool:
        """Tell whether the server, and thus its guardian, is there; only its owner can tell."""
        self._check_owner()
        return self._guardian is not None and self._guardian.poll() is None

    @property
    def log(self) -> Path:
        """Return the file that the server logs to."""
        return self.home / "server.log"

    def start(self) -> None:
        """Start the server, unless it runs, and wait until it answers."""
        if self.running:
            return
        self._owner = os.getpid()
        self._make_home()
        with self._lock() as lock:
            self._make_data(lock)
            for _ in range(PORT_ATTEMPTS):
                if self._launch(self._choose_port(), lock):
                    return
        raise ServerDidNotStartError(
            server=self.name, reason=f"{PORT_ATTEMPTS} ports in turn were taken by others", log=self.log, tail=""
        )

    def stop(self) -> None:
        """Stop the server in an orderly way, killing it if that takes too long; no process of it is left."""
        if self._owner in (None, os.getpid()):
            self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill all the server's processes at once (SIGKILL), as a machine that loses power would; none is left."""
        self._end(guardian.KILL_TREE)

    @abstractmethod
    def _make_data(self, lock: int) -> None:
        """Make the data if it does not exist; called with the lock held, whose descriptor a helper may inherit."""

    @abstractmethod
    def _command(self, port: int) -> list[str]:
        """Return the command that runs the server in the foreground on this port."""

    @abstractmethod
    def _answers(self, port: int) -> bool:
        """Tell whether this very server, and no other that took the port, answers its clients."""

    def _make_home(self) -> None:
        """Make the directory for the server's files."""
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _account(self) -> Account | None:
        """Return the account to run the server as; None means our own."""
        return None

    def _end(self, number: int) -> None:
        """Have the guardian end the server, and wait until no process of it is left."""
        if self.running and self._guardian is not None:
            self._guardian.send_signal(number)
        self._wait_until_gone()

    def _wait_until_gone(self) -> None:
        """Wait for the guardian to go, and for the last process that had the data open."""
        if self._guardian is None:
            return
        self._guardian.wait()
        self._guardian = self._pid = None
        with self._lock():
            pass

    def _check_owner(self) -> None:
        if self._owner not in (None, os.getpid()):
            raise NotTheOwnerError(server=self.name, owner=self._owner or 0)

    @contextmanager
    def _lock(self) -> Iterator[int]:
        """Hold the data's lock; whoever inherits the descriptor holds it on."""
        # A server whose owner has just been killed may still be about to stop: wait for it.
        descriptor = os.open(self.home / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not flock.taken(descriptor, LOCK_TIMEOUT, self._say_what_it_waits_for):
                raise DataInUseError(server=self.name, home=self.home)
            yield descriptor
        finally:
            os.close(descriptor)

    def _say_what_it_waits_for(self) -> None:
        self._tell(
            f"another {self.name} still runs on the data in {self.home} (is a second `keepstep dev` open?); "
            f"waiting up to {LOCK_TIMEOUT:g} s for it to end"
        )

    def _choose_port(self) -> int:
        """Return the port of the last time if it is free, else, unless its URL has been handed out, another."""
        note = self.home / "port"
        known = self._port or (int(note.read_text()) if note.exists() else None)
        deadline = time.monotonic() + (PORT_PATIENCE if self._port else 0)
        while known is not None:
            if ports.is_free(known):
                return known
            if time.monotonic() > deadline:
                break
            time.sleep(POLL)
        if self._port is not None:
            raise PortTakenError(server=self.name, port=self._port)
        port = ports.free_port()
        note.write_text(f"{port}\n")
        return port

    def _launch(self, port: int, lock: int) -> bool:
        """Start the guardian, which starts the server, and wait until it answers; False: another took the port."""
        with self.log.open("ab") as log:
            begin = log.tell()
            self._guardian = self._start_guardian(self._command(port), log.fileno(), lock)
        try:
            return self._wait_for_answer(port, begin)
        except BaseException:
            self._guardian.send_signal(guardian.KILL_TREE)
            self._guardian.wait()
            self._guardian = self._pid = None
            raise

    def _wait_for_answer(self, port: int, begin: int) -> bool:
        assert self._guardian is not None
        assert self._guardian.stdout is not None
        with self._guardian.stdout as reports:
            self._pid = int(reports.readline() or 0)
        deadline = time.monotonic() + START_TIMEOUT
        while self._guardian.poll() is None:
            if self._answers(port):
                self._port = port
                return True
            if time.monotonic() > deadline:
                raise self._failure(f"it gave no answer within {START_TIMEOUT:g} seconds", begin)
            time.sleep(POLL)
        if not ports.is_free(port):
            return False
        raise self._failure("it ended at once", begin)

    def _start_guardian(self, command: list[str], log: int, lock: int) -> subprocess.Popen[bytes]:
        account = self._account()
        options = [
            str(os.getpid()),
            str(int(self.polite)),
            str(GRACE),
            f"{account.uid}:{account.gid}" if account else "",
            str(self.home) if self._temporary else "",
        ]
        return subprocess.Popen(
            [sys.executable, "-I", "-S", guardian.__file__, *options, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd="/",
            pass_fds=(lock,),
            start_new_session=True,  # neither a Ctrl-C nor a killpg meant for the owner reaches it
        )

    def _failure(self, reason: str, begin: int) -> ServerDidNotStartError:
        """Describe a failed start, with what was logged since `begin` (a position in the log, in bytes)."""
        with self.log.open("rb") as log:
            log.seek(begin)
            lines = log.read().decode(errors="replace").splitlines()
        return ServerDidNotStartError(server=self.name, reason=reason, log=self.log, tail="\n".join(lines[-LOG_LINES:]))
