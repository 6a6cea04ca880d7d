"""A real PgBouncer in transaction mode, in front of a test's database; where it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from keepstep.dev.ports import free_port
from tests.support.eventually import eventually

NOBODY = "nobody"


def binary() -> str | None:
    """Where PgBouncer is; None where it isn't installed."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


class Pooler:
    """url: what the clients take. server_connections: the most that it opens to PostgreSQL."""

    def __init__(self, database_url: str, home: Path, *, server_connections: int = 4, options: str = ""):
        parts, self._port = urlsplit(database_url), free_port()
        program = binary()
        assert program is not None
        config = home / "pgbouncer.ini"
        config.write_text(
            f"""[databases]
* = host=127.0.0.1 port={parts.port} user={parts.username}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self._port}
auth_type = any
pool_mode = transaction
default_pool_size = {server_connections}
max_client_conn = 200
ignore_startup_parameters = extra_float_digits
{options}
"""
        )
        as_nobody = ["-u", NOBODY] if os.geteuid() == 0 else []
        if as_nobody:
            home.chmod(0o755)
            config.chmod(0o644)
        with (home / "pgbouncer.log").open("wb") as log:
            self._process = subprocess.Popen([program, *as_nobody, str(config)], stdout=log, stderr=log)
        self.log = home / "pgbouncer.log"
        self.url = urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{self._port}"))
        eventually(lambda: b"process up" in self.log.read_bytes() or self._process.poll(), 10, "PgBouncer to be up")
        assert self._process.poll() is None, self.log.read_text()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


__all__ = ["Pooler", "binary"]
