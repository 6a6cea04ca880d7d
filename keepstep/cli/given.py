"""What a person hands over on the command line: a case's two names, JSON, tags, lengths of time."""

from __future__ import annotations

import getpass
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import click

from keepstep.steps.outcome import seconds_of

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
        except RecursionError:
            self.fail(f"{source} is nested too deeply.", param, ctx)

    def _read(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if value == "-":
            return sys.stdin.read(), "what came on stdin"
        if not value.startswith("@"):
            return value, f"{value[:60]!r}"
        try:
            return Path(value[1:]).read_text(encoding="utf-8"), f"the file {value[1:]}"
        except (OSError, UnicodeDecodeError) as error:
            self.fail(f"the file {value[1:]} can't be read: {error}", param, ctx)


def account() -> str | None:
    """The name of the account that runs the command; None if it has none, as in a container."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return None


def tag_option(text: str) -> Callable[[F], F]:
    """The option --tag, as `tags`: texts by name, None if there are none."""
    return click.option("--tag", "tags", multiple=True, metavar="NAME=TEXT", callback=_tags, help=text)


def _tags(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, str] | None:
    pairs = [text.partition("=") for text in given]
    for name, sign, _ in pairs:
        if not name or not sign:
            raise click.BadParameter("a tag is NAME=TEXT, such as tenant=acme.", ctx, param)
    return {name: value for name, _, value in pairs} or None


class Span(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.3 on only
    """A length of time such as 90, 90s, 15min, 2h, 3d, in seconds."""

    name = "span"
    units: ClassVar = {"": 1.0, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Seconds."""
        if not isinstance(value, str):
            return value
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?(s|min|m|h|d)?", value.strip())
        if found is None:
            self.fail(f"{value!r} is no length of time: write 90s, 15min, 2h or 3d.", param, ctx)
        try:
            return seconds_of(float(found[1]) * self.units[found[2] or ""])
        except ValueError:
            self.fail(f"{value!r} is too long: the most is three centuries.", param, ctx)
