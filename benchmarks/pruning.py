"""What running steps notice of 100,000 ended cases that leave beside them."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace

import sqlalchemy as sa

from benchmarks import work
from benchmarks.load import Load
from benchmarks.rig import Rig, rig
from benchmarks.shape import Shape
from benchmarks.speed import Crew, quiet
from tests.support.eventually import eventually

ENDED, CHECKPOINTS = 100_000, 10
CASES, STEPS, ROUNDS = 100, 40, 4

_CASES = """
insert into keepstep.cases (id, run, workflow, thread_id, input, status, finished_at, expires_at)
select md5('ended' || n)::uuid, gen_random_uuid(), 'work', 'ended-' || n, '{}', 'cancelled', now() - interval '9 days',
       now() - interval '1 day'
  from generate_series(:low, :high) n"""
_CHECKPOINTS = """
insert into keepstep.checkpoints (case_id, seq, kind, step, status, target, attempt, schema_version, is_snapshot,
                                  payload)
select md5('ended' || n)::uuid, s, case s when 0 then 'start' else 'step' end, 'n1', 'queued', 'n1', 1, 1, s = 0,
       case s when 0 then json_build_object('blob', repeat('x', 1000))
              else json_build_array(json_build_object('op', 'replace', 'path', '/n', 'value', s)) end
  from generate_series(:low, :high) n, generate_series(0, :most) s"""


@dataclass(frozen=True, kw_only=True)
class Pruning:
    """without, beside: steps a second. pruned_per_s: ended cases that went meanwhile, a second."""

    crew: Crew
    without: float
    beside: float
    pruned_per_s: float


def measure(shape: Shape, pool: str) -> Pruning:
    """On servers of its own; rounds without and with ended cases take turns."""
    crew = replace(Crew.of(pool, shape), workers=2)
    with rig(workflows=work.ALL, module="benchmarks.work", env=quiet(shape)) as built:
        crew.start(built)
        load = Load(built=built, steps=STEPS, state_bytes=1024)
        load.at_once(CASES)
        without, beside, pruned, seconds = [], [], 0.0, 0.0
        for number in range(ROUNDS):
            without.append(CASES * STEPS / load.at_once(CASES))
            share = ENDED // ROUNDS
            _fill(built, number * share + 1, (number + 1) * share)
            left = _left(built)
            eventually(lambda: _left(built) < left, 60, "the sweep to begin")  # noqa: B023
            left = _left(built)
            took = load.at_once(CASES)
            beside.append(CASES * STEPS / took)
            pruned, seconds = pruned + left - _left(built), seconds + took
            built.sql.execute("delete from keepstep.checkpoints where case_id in (select id from keepstep.cases where "
                              "thread_id like 'ended-%')")  # fmt: skip
            built.sql.execute("delete from keepstep.cases where thread_id like 'ended-%'")
            built.sql.execute("vacuum keepstep.checkpoints, keepstep.cases")
    return Pruning(
        crew=crew,
        without=statistics.median(without),
        beside=statistics.median(beside),
        pruned_per_s=pruned / seconds,
    )


def _fill(built: Rig, low: int, high: int) -> None:
    with built.db.transaction() as connection:
        connection.execute(sa.text(_CASES), {"low": low, "high": high})
        connection.execute(sa.text(_CHECKPOINTS), {"low": low, "high": high, "most": CHECKPOINTS - 1})
    built.sql.execute("vacuum analyze keepstep.cases")
    built.sql.execute("vacuum analyze keepstep.checkpoints")


def _left(built: Rig) -> float:
    return built.number("select count(*) from keepstep.cases where thread_id like 'ended-%%'")
