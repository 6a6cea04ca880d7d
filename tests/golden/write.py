"""Write what this release writes: `python -m tests.golden.write`, once before each release.

A release's file stays as it is for ever. Until then, a version's file may be written again.
"""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from packaging.version import Version

from keepstep import Client, __version__
from keepstep.checkpoint.database import Database
from keepstep.config.settings import postgres_url
from keepstep.testing import Runner
from tests.golden import store
from tests.golden.flow import golden
from tests.support.release import releases
from tests.support.servers import SessionServers

HOW = ("waiting", "early", "votes", "both", "sleeping", "snapshot", "held", "completed", "queued")


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


def found(client: Client, how: str) -> dict[str, Any]:
    """Where a case stands, and its state."""
    case = client.get("golden", how)
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


def main() -> None:
    """A database of its own, on servers of its own."""
    path = target(__version__)
    servers = SessionServers()
    urls = servers.start()
    try:
        admin = Database(postgres_url(urls.postgres), pool_size=1)
        name = f"golden_{uuid.uuid4().hex[:8]}"
        admin.run(sa.text(f"create database {name}"), {})
        with Runner(urls.database(name), [golden]) as runner:
            expected = make(runner)
        db = Database(postgres_url(urls.database(name)))
        path.write_text(store.dump(db, expected) + "\n")
        print(f"{path}: {len(expected)} cases")
        db.dispose()
        admin.dispose()
    finally:
        servers.stop()


if __name__ == "__main__":
    main()
