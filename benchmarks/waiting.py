"""Steps that wait for an API: so many at once in one worker, and how near that comes to what the waiting allows."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from benchmarks import work
from benchmarks.load import Load
from benchmarks.rig import Rig, rig
from benchmarks.shape import Shape
from benchmarks.speed import Crew, quiet
from benchmarks.usage import memory

SECONDS, STEPS = 0.5, 20
_FROM, _TO = 3, 18
# Seconds from one step to the next of the same case, while all of them run: without the beginning and the end.
_CYCLE = f"""
select avg(extract(epoch from late.at - early.at)) / {_TO - _FROM} from keepstep.checkpoints early
  join keepstep.checkpoints late on late.case_id = early.case_id and late.seq = {_TO}
  join keepstep.cases k on k.id = early.case_id
 where early.seq = {_FROM} and k.thread_id like 'M%%'"""
_CONNECTIONS = "select count(*) from pg_stat_activity where application_name like 'keepstep worker%%'"


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """ideal: of what the waiting alone would allow, 0 to 1. connections: to PostgreSQL, at the most seen."""

    crew: Crew
    kind: str
    per_s: float
    ideal: float
    connections: int
    mib: float


def measure(shape: Shape, kind: str, *, at_once: int = 200) -> Waiting:
    """One worker with a threads pool. kind: of step, "sync" or "async"."""
    crew = Crew(pool="threads", workers=1, concurrency=int(shape.options.get("concurrency", at_once)))
    workflow = {"sync": "work", "async": "awaited"}[kind]
    with rig(workflows=work.ALL, module="benchmarks.work", env=quiet(shape)) as built:
        crew.start(built)
        load = Load(built=built, steps=STEPS, seconds=SECONDS, workflow=workflow)
        with _Watch(built) as watch:
            load.in_one_go(at_once)
        mib, cycle = memory(built), built.number(_CYCLE)
    ideal = SECONDS / cycle
    return Waiting(crew=crew, kind=kind, per_s=at_once / cycle, ideal=ideal, connections=watch.most, mib=mib)


class _Watch:
    """Counts the workers' connections now and then."""

    def __init__(self, built: Rig):
        self.most, self._built, self._over = 0, built, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._over.wait(0.2):
            self.most = max(self.most, int(self._built.number(_CONNECTIONS)))

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
