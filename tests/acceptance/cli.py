"""`keepstep` as a user runs it: a process, its exit code, what it prints."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import Any

from tests.support import zygote
from tests.support.worker import ROOT

COMMAND = [sys.executable, "-m", "keepstep.cli.main"]


@dataclass(frozen=True, kw_only=True)
class Ran:
    """One command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)

    def refuses(self, code: int) -> str:
        """The one line in which it was refused; no traceback, nothing on stdout."""
        lines = self.err.strip().splitlines()
        assert (self.code, len(lines), self.out) == (code, 1, ""), f"exit {self.code}\n{self.err}\n{self.out}"
        assert lines[0].startswith("keepstep: ")
        return lines[0]


@dataclass(frozen=True)
class Cli:
    """env: the variables on top of ours."""

    env: Mapping[str, str]

    def __call__(self, *args: str, stdin: str = "", timeout: float = 60.0, **env: str) -> Ran:
        whole = {**os.environ, **self.env, **env}
        with TemporaryFile("w+") as given, TemporaryFile("w+") as out, TemporaryFile("w+") as err:
            given.write(stdin)
            given.seek(0)
            process = zygote.fork(args, env=whole, cwd=ROOT, stdin=given, out=out, err=err)
            try:
                code = process.wait(timeout)
            finally:
                process.send_signal(signal.SIGKILL)
            out.seek(0)
            err.seek(0)
            return Ran(code=code, out=out.read(), err=err.read())
