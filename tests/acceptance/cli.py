"""`keepstep` as a user runs it: a process, its exit code, what it prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.worker import ROOT

COMMAND = [sys.executable, "-m", "keepstep.cli.main"]


@dataclass(frozen=True, kw_only=True)
class Ran:
    """One command that has ended. seconds: how long it took, the start of Python included."""

    code: int
    out: str
    err: str
    seconds: float

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
        began = time.monotonic()
        ran = subprocess.run(
            [*COMMAND, *args],
            env={**os.environ, **self.env, **env},
            cwd=ROOT,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Ran(code=ran.returncode, out=ran.stdout, err=ran.stderr, seconds=time.monotonic() - began)
