"""Write what this release writes: `python -m tests.golden.write`, once before each release.

A release's files stay as they are for ever. Until then, a version's files may be written again. That of 0.1.0 about
branches was written afterwards, by its own wheel.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from packaging.version import Version

from keepstep import Client, Workflow, __version__
from keepstep.checkpoint.database import Database
from keepstep.config.settings import postgres_url
from keepstep.testing import Runner
from tests.golden import store
from tests.golden.fanned import fanned, small
from tests.golden.flow import golden
from tests.support.release import releases
from tests.support.servers import SessionServers, Urls

HOW = ("waiting", "early", "votes", "both", "sleeping", "snapshot", "held", "completed", "queued")
FANNED = ("open", "child", "completed")


def make(runner: Runner) -> dict[str, Any]:
    """The cases, each where it comes to rest; the states of all."""
    for how in HOW:
        case = runner.start("golden", how, {"how": how})
        if how == "early":
            runner.signal(case, "news", {"kept": "for later"}, actor="somebody")
        if how != "queued":
            runner.run()
    runner.client.approve("golden", "votes", actor="one")
    runner.client.signal("golden", "both", "seen", "by \0 hand")
    runner.client.pause("golden", "queued", actor="op", reason="kept as it began")
    return {how: found(runner.client, how) for how in HOW}


def make_fanned(runner: Runner) -> dict[str, Any]:
    """Cases with a fan-out: of which nothing has ended, with a child that waits, and completed."""
    for how in FANNED:
        runner.start("fanned", how, {"how": how})
        runner.run()
        if how != "open":
            runner.client.signal("fanned.branches", f"{how}/length#1[0]", "go", 4)
            runner.run()
        if how == "completed":
            runner.client.signal("small", f"{how}/small#5", "seen", "yes")
            runner.run()
    return {how: found(runner.client, how, "fanned") for how in FANNED}


def found(client: Client, how: str, workflow: str = "golden") -> dict[str, Any]:
    """Where a case stands, and its state."""
    case = client.get(workflow, how)
    return {"status": str(case.status), "step": case.step, "seq": case.seq, "state": case.state}


def target(version: str) -> Path:
    """The file of the release that this version is, or that it leads to; refused if that has been published."""
    name = Version(version).base_version
    if name in [release.version for release in releases()]:
        sys.exit(
            f"keepstep {name} has been released, and its golden checkpoints stay as that release wrote them. "
            "Set the next version in keepstep/_version.py first."
        )
    return store.HOME / f"{name}.json"


def write(path: Path, urls: Urls, workflows: Sequence[Workflow], make: Callable[[Runner], dict[str, Any]]) -> None:
    """Make the cases in a database of their own, and keep them in this file."""
    admin = Database(postgres_url(urls.postgres), pool_size=1)
    name = f"golden_{uuid.uuid4().hex[:8]}"
    admin.run(sa.text(f"create database {name}"), {})
    with Runner(urls.database(name), list(workflows)) as runner:
        expected = make(runner)
    db = Database(postgres_url(urls.database(name)))
    path.write_text(store.dump(db, expected) + "\n")
    print(f"{path}: {len(expected)} cases")
    db.dispose()
    admin.dispose()


def main() -> None:
    """On servers of its own."""
    path = target(__version__)
    servers = SessionServers()
    try:
        urls = servers.start()
        write(path, urls, [golden], make)
        write(store.BRANCHES / path.name, urls, [fanned, small], make_fanned)
    finally:
        servers.stop()


if __name__ == "__main__":
    main()
