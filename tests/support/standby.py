"""A hot standby of a PostgreSQL server, as production's replicas are: it streams what its primary writes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from keepstep.dev import ports
from keepstep.dev.guardian import server_environment
from keepstep.dev.postgres import SUPERUSER, Postgres


class Standby(Postgres):
    """Made from its primary, which has to run at the first start; it can be read, and not be written."""

    name = "the standby"

    def __init__(self, data: Path, primary: Postgres, **options: Any) -> None:
        super().__init__(data, **options)
        self._primary = primary

    def _make_data(self, lock: int) -> None:
        if self._cluster.is_dir():
            return
        account = self._account()
        source = ["-h", ports.LOOPBACK, "-p", str(self._primary.port), "-U", SUPERUSER]
        done = subprocess.run(
            [self._program("pg_basebackup"), "-D", self._cluster, "-R", "-c", "fast", *source],
            capture_output=True,
            cwd="/",
            env=server_environment(),
            pass_fds=(lock,),
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")
