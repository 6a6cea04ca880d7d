"""`keepstep`: the command line. Every refusal is one line on stderr, and an exit code that a script can use."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from keepstep._version import __version__
from keepstep.cli import exits
from keepstep.cli.group import LazyGroup
from keepstep.config.settings import export_settings
from keepstep.steps.errors import KeepstepError
from keepstep.steps.words import printable

COMMANDS = {
    "demo": ("keepstep.cli.demo:demo", "Watch a case of 42 steps survive the kill of its worker at step 34."),
    "dev": ("keepstep.cli.dev:dev", "Run PostgreSQL, Valkey, a worker and Flower in the foreground."),
    "db": ("keepstep.cli.db:db", "Bring the database's tables up to date, or check them."),
    "check": ("keepstep.cli.check:check", "Before a deploy: say which live cases this code could not go on with."),
    "worker": ("keepstep.cli.worker:worker", "Run a worker; takes all options of `celery worker`."),
    "start": ("keepstep.cli.start:start", "Start a case."),
    "show": ("keepstep.cli.show:show", "Say what a case is doing now, and what it waits for."),
    "why": ("keepstep.cli.why:why", "Say what a case waits for, and what would move it."),
    "branches": ("keepstep.cli.branches:branches", "List the branches of a case, and where they stand."),
    "list": ("keepstep.cli.cases:list_cases", "List cases, the newest first."),
    "history": ("keepstep.cli.history:history", "List all that happened to a case."),
    "calls": ("keepstep.cli.calls:calls", "List what a case called outside, with its keys and costs."),
    "diff": ("keepstep.cli.diff:diff", "Show what changed in a case's state between two checkpoints."),
    "signal": ("keepstep.cli.signal:signal", "Send a signal to a case: an approval, a message."),
    "send": ("keepstep.cli.signal:send", "Send a message to a stream of a case."),
    "inbox": ("keepstep.cli.inbox:inbox", "List the decisions that cases wait for."),
    "approve": ("keepstep.cli.inbox:approve", "Approve what a case asks."),
    "reject": ("keepstep.cli.inbox:reject", "Reject what a case asks."),
    "retry": ("keepstep.cli.steer:retry", "Let a held or failed case go on with the same step."),
    "cancel": ("keepstep.cli.steer:cancel", "End a case as cancelled."),
    "pause": ("keepstep.cli.steer:pause", "Let a case begin no further step."),
    "resume": ("keepstep.cli.steer:resume", "End a pause."),
    "skip": ("keepstep.cli.replay:skip", "Go on behind the step that a case stands at."),
    "rewind": ("keepstep.cli.replay:rewind", "Let a case go on from an earlier checkpoint."),
    "fork": ("keepstep.cli.replay:fork", "Start another case from a checkpoint of this one."),
    "restart": ("keepstep.cli.replay:restart", "Let a case begin again."),
    "prune": ("keepstep.cli.prune:prune", "Delete ended cases that are past their retention, now."),
    "export": ("keepstep.cli.export:export", "Write all that the database has of a case, as JSON Lines."),
    "erase": ("keepstep.cli.export:erase", "Delete everything of a case, for ever."),
    "size": ("keepstep.cli.size:size", "Say what takes room in the database, and what is wrong with it."),
    "queues": ("keepstep.cli.queues:list_queues", "List queues: depth, age, waits, workers."),
    "doctor": ("keepstep.cli.doctor:doctor", "Look for what is wrong with the surroundings, and say what to do."),
    "metrics": ("keepstep.cli.metrics:metrics", "Serve metrics for Prometheus, on 127.0.0.1."),
    "flower": ("keepstep.cli.flower:flower", "Run Flower with the cases and the inbox, on 127.0.0.1."),
}


@click.group(
    cls=LazyGroup,
    commands_at=COMMANDS,
    epilog=exits.explain(),
    context_settings={"max_content_width": 100},
)
@click.option("--database-url", metavar="URL", help="PostgreSQL; else KEEPSTEP_DATABASE_URL.")
@click.option("--broker-url", metavar="URL", help="Redis or Valkey; else KEEPSTEP_BROKER_URL.")
@click.option("--workflows", metavar="MODULES", help="Modules, separated by commas; else KEEPSTEP_WORKFLOWS.")
@click.version_option(__version__, package_name="keepstep", message="keepstep %(version)s")
def cli(database_url: str | None, broker_url: str | None, workflows: str | None) -> None:
    """Durable workflow steps on Celery, Redis and PostgreSQL."""
    export_settings(database_url=database_url, broker_url=broker_url, workflows=workflows)


def main(args: Sequence[str] | None = None) -> None:
    """Run one command, and exit with its code."""
    sys.exit(run(args))


def run(args: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. What isn't a refusal is a bug, and keeps its traceback."""
    try:
        code = cli.main(args=None if args is None else list(args), prog_name="keepstep", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else exits.Exit.OK
    except KeepstepError as error:
        return fail(str(error), exits.code_for(error))
    except click.UsageError as error:
        if isinstance(error, _NO_COMMAND):
            error.show()
            return exits.Exit.USAGE
        return fail(_usage(error), exits.Exit.USAGE)
    except click.ClickException as error:
        return fail(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return exits.Exit.INTERRUPTED
    except BrokenPipeError:  # `keepstep list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.Exit.FAILED


def fail(message: str, code: int) -> int:
    """Say on stderr, in one line, why it didn't work; returns the code."""
    click.echo(printable(f"keepstep: {' '.join(message.split())}"), err=True)
    return code


_NO_COMMAND: tuple[type[click.UsageError], ...] = tuple(
    filter(None, [getattr(click.exceptions, "NoArgsIsHelpError", None)])  # click 8.1 doesn't have it
)


def _usage(error: click.UsageError) -> str:
    where = error.ctx.command_path if error.ctx is not None else "keepstep"
    return f"{error.format_message()} See: {where} --help"


if __name__ == "__main__":
    main()
