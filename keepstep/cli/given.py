"""What a person hands over on the command line: a case's two names, and JSON in one of three ways."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def case_arguments(command: F) -> F:
    """The arguments WORKFLOW and THREAD_ID."""
    return click.argument("workflow")(click.argument("thread_id")(command))


class JsonValue(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.3 on only
    """JSON as it stands, `@file` for a file's content, or `-` for what comes on stdin."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse it; a usage error names the line and the column."""
        if not isinstance(value, str):
            return value
        text, source = self._read(value, param, ctx)
        try:
            return json.loads(text)
        except ValueError as error:
            self.fail(f"{source} is not JSON: {error}", param, ctx)

    def _read(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if value == "-":
            return sys.stdin.read(), "what came on stdin"
        if not value.startswith("@"):
            return value, f"{value[:60]!r}"
        try:
            return Path(value[1:]).read_text(encoding="utf-8"), f"the file {value[1:]}"
        except (OSError, UnicodeDecodeError) as error:
            self.fail(f"the file {value[1:]} can't be read: {error}", param, ctx)
