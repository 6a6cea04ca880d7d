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
CASES, STEPS, ROUNDS = 300, 40, 8
"""Rounds with and without ended cases take turns, and so does which of the two comes first."""

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
    """without, beside: steps a second, medians of the rounds. slower: by how many per cent, the median of each round's
    own figure. pruned_per_s: ended cases that went meanwhile, a second.
    """

    crew: Crew
    without: float
    beside: float
    slower: float
    pruned_per_s: float


def measure(shape: Shape, pool: str) -> Pruning:
    """On servers of its own."""
    crew = replace(Crew.of(pool, shape), workers=2)
    with rig(workflows=work.ALL, module="benchmarks.work", env=quiet(shape)) as built:
        crew.start(built)
        load = Load(built=built, steps=STEPS, state_bytes=1024)
        load.at_once(CASES)
        without, beside, pruned = [], [], []
        for number in range(ROUNDS):
            for second in (number % 2 == 0, number % 2 == 1):
                if second:
                    per_s, gone = _beside(built, load, number)
                    beside.append(per_s)
                    pruned.append(gone)
                else:
                    without.append(CASES * STEPS / load.at_once(CASES))
    return Pruning(
        crew=crew,
        without=statistics.median(without),
        beside=statistics.median(beside),
        slower=statistics.median(100 * (1 - b / w) for b, w in zip(beside, without, strict=True)),
        pruned_per_s=statistics.median(pruned),
    )


def _beside(built: Rig, load: Load, number: int) -> tuple[float, float]:
    """Steps a second while ended cases leave, and how many of these go a second."""
    share = ENDED // ROUNDS
    _fill(built, number * share + 1, (number + 1) * share)
    left = _left(built)
    eventually(lambda: _left(built) < left, 60, "the sweep to begin")
    left = _left(built)
    took = load.at_once(CASES)
    gone = left - _left(built)
    ended = "from keepstep.cases where thread_id like 'ended-%'"
    built.sql.execute(f"delete from keepstep.checkpoints where case_id in (select id {ended})")
    built.sql.execute(f"delete {ended}")
    built.sql.execute("vacuum keepstep.checkpoints, keepstep.cases")
    return CASES * STEPS / took, gone / took


def _fill(built: Rig, low: int, high: int) -> None:
    with built.db.transaction() as connection:
        connection.execute(sa.text(_CASES), {"low": low, "high": high})
        connection.execute(sa.text(_CHECKPOINTS), {"low": low, "high": high, "most": CHECKPOINTS - 1})
    built.sql.execute("vacuum analyze keepstep.cases")
    built.sql.execute("vacuum analyze keepstep.checkpoints")


def _left(built: Rig) -> float:
    return built.number("select count(*) from keepstep.cases where thread_id like 'ended-%%'")
