"""What may befall a worker that stands at a failpoint, and what is done about it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sa

from keepstep.checkpoint.database import Database
from keepstep.dev.servers import Servers
from tests.support.eventually import eventually
from tests.support.failpoints import Failpoints
from tests.support.worker import Worker


@dataclass
class Scene:
    """What a fault may strike."""

    worker: Worker
    start_worker: Callable[[], Worker]
    points: Failpoints
    servers: Servers
    db: Database


def kill_children(scene: Scene) -> None:
    """All but the sweep, which is in the main process: it halts before it rings for a case that has slept."""
    for reached in scene.points.reached():
        if reached.pid != scene.worker.pid:
            os.kill(reached.pid, signal.SIGKILL)
    scene.points.release()


def kill_the_worker(scene: Scene) -> None:
    scene.worker.kill()
    scene.start_worker()


def freeze_past_the_lease_then_thaw(scene: Scene) -> None:
    """A zombie: taken for dead, and awake again when others have gone on without it."""
    scene.worker.freeze()
    scene.start_worker()
    nodes = sa.text("select count(*) as n from keepstep.nodes")
    owned = sa.text("select count(*) as n from keepstep.heads where owner is not null")
    eventually(lambda: scene.db.all(nodes)[0].n == 1, 20, "the frozen node is taken for dead")
    eventually(lambda: scene.db.all(owned)[0].n == 0, 20, "nothing runs any more")
    scene.worker.thaw()
    scene.points.release()


def cut_connections(scene: Scene) -> None:
    cut = "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'keepstep %'"
    scene.db.all(sa.text(cut))
    scene.points.release()


def lose_the_broker(scene: Scene) -> None:
    scene.servers.valkey.kill()
    scene.points.release()
    scene.servers.valkey.start()


FAULTS = [kill_children, kill_the_worker, freeze_past_the_lease_then_thaw, cut_connections, lose_the_broker]
