"""The command group: a command's module is imported when the command is called, so that each starts quickly."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import click


class LazyGroup(click.Group):
    """A group whose commands are named as "module:object" beside their one line of help."""

    def __init__(self, *args: Any, commands_at: Mapping[str, tuple[str, str]], **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._at = dict(commands_at)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names in the order of the table, which is the order in which people meet them."""
        return list(self._at)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command."""
        if cmd_name not in self._at:
            return None
        module, _, name = self._at[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, help) for name, (_, help) in self._at.items()])


class Verbatim(click.Command):
    """A command whose options are shown by --help, and handed on exactly as they were given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take everything as it is; only --help is ours."""
        if "--help" in args:
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()
        ctx.args = list(args)
        return ctx.args


def given(args: Sequence[str], *names: str) -> bool:
    """Whether one of the options was given, as `--name`, `--name=value`, `-n` or `-nvalue`."""
    return any(
        arg == name or arg.startswith(f"{name}=" if name.startswith("--") else name) for arg in args for name in names
    )
