"""PostgreSQL and Valkey together, as `keepstep dev` and the tests use them."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from keepstep.dev.account import account_for, reachable_directory
from keepstep.dev.postgres import Postgres
from keepstep.dev.valkey import Valkey


class Servers:
    """One PostgreSQL and one Valkey below one directory; without a directory, a temporary one, removed at the end.

    Both end with the process that started them, even if it is killed. A context manager: starts them, and stops them.
    """

    def __init__(
        self,
        base_dir: Path | None = None,
        *,
        postgres_settings: Mapping[str, str] | None = None,
        valkey_settings: Mapping[str, str] | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        """Describe the two servers; nothing runs yet. tell: gets a line when a start has to wait."""
        self._temporary = base_dir is None
        self.base_dir = Path(base_dir).absolute() if base_dir else _temporary_directory()
        self._owner = os.getpid()
        options: dict[str, Any] = {"temporary": self._temporary, "tell": tell}
        self.postgres = Postgres(self.base_dir / "postgres", settings=postgres_settings, **options)
        self.valkey = Valkey(self.base_dir / "valkey", settings=valkey_settings, **options)

    def start(self) -> None:
        """Start both and wait until both answer; if one cannot start, none is left running."""
        self._owner = os.getpid()
        try:
            self.valkey.start()
            self.postgres.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop both, and remove their data if it is temporary."""
        try:
            self.postgres.stop()
        finally:
            self.valkey.stop()
        if self._temporary and self._owner == os.getpid():
            shutil.rmtree(self.base_dir, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _temporary_directory() -> Path:
    """Make a directory that PostgreSQL's account can reach, too."""
    return reachable_directory(account_for(), lasting=False)
