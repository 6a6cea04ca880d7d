"""`keepstep flower`: Flower with the cases."""

from __future__ import annotations

from typing import Any

import click

from keepstep.cli.group import Verbatim


@click.command(cls=Verbatim)
@click.option("--port", metavar="PORT", help="Default: 5555.")
@click.option("--address", metavar="HOST", help="Default: 127.0.0.1. Flower has no password of its own: see below.")
@click.option("--basic-auth", metavar="USER:PASSWORD", help="Ask for it; wanted when --address is another one.")
@click.option("--read-only", is_flag=True, help="Show everything, and let nobody do anything.")
@click.pass_context
def flower(ctx: click.Context, /, **_: Any) -> int:
    """Run Flower with the cases and the inbox, on 127.0.0.1 unless --address says otherwise.

    Every option goes to Flower as it is, also those that aren't shown here; FLOWER_... variables work too. A task is
    named workflow.step, and its arguments are the thread id and the checkpoint's number; states never pass here.
    """
    from keepstep.monitor.flower import run_flower

    return run_flower(ctx.args)
