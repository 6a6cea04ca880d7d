"""Nobody is taken for dead without a proof that this judge has itself watched."""

from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstep.checkpoint.nodes import Sighting
from keepstep.workers.judge import Dead, Judge

LEASE, BEAT = 10.0, 1.0
NODE = Sighting(id=UUID(int=1), host="db-7", host_id="there", process="7:70", beat=5, lock_works=True, locked=True)
FREE = replace(NODE, locked=False)
NO_LOCK = replace(NODE, lock_works=False, locked=False)


def judge(*, alive: Iterable[str] = (), lease: float = LEASE, beat: float = BEAT) -> Judge:
    return Judge(lease=lease, beat=beat, host_id="here", is_alive=set(alive).__contains__)


def test_a_verdict_names_host_and_process_for_the_log() -> None:
    [dead] = judge().observe([replace(NODE, host_id="here")], 0.0)
    assert (dead.host, dead.process) == ("db-7", "7:70")


def settled(*, alive: Iterable[str] = ()) -> Judge:
    """A judge that has been watching for a whole lease, until second 100."""
    one = judge(alive=alive)
    one.observe([], 0.0)
    assert one.observe([], 99.0) == []
    return one


def watch(one: Judge, sighting: Sighting, *times: float) -> list[Dead]:
    """What is said at the last of these times, the first to say anything."""
    dead: list[Dead] = []
    for now in times:
        assert not dead, f"already dead before {now}"
        dead = one.observe([sighting], now)
    return dead


# ------------------------------------------------------------------------------------------- proof 1: the process
def test_a_process_of_this_host_that_is_gone_is_dead_at_once_and_for_certain() -> None:
    (dead,) = judge().observe([replace(NODE, host_id="here")], 0.0)
    assert (dead.id, dead.certain) == (NODE.id, True)


def test_the_same_pid_on_another_host_says_nothing() -> None:
    assert judge().observe([NODE], 0.0) == []


def test_a_living_process_of_this_host_is_judged_like_any_other() -> None:
    here = replace(FREE, host_id="here")
    one = settled(alive=["7:70"])
    (dead,) = watch(one, here, 100.0, 101.0, 102.0)
    assert not dead.certain


# ---------------------------------------------------------------------------------- proof 2: the lock, and two beats
def test_a_free_lock_beside_an_unchanged_beat_is_a_death_after_two_beats() -> None:
    (dead,) = watch(settled(), FREE, 100.0, 101.0, 101.9, 102.0)
    assert (dead.certain, "lock is free" in dead.proof) == (False, True)


def test_a_lock_that_is_held_keeps_a_silent_node_alive_for_its_lease() -> None:
    assert watch(settled(), NODE, 100.0, 102.0, 109.9) == []
    (dead,) = watch(settled(), NODE, 100.0, 105.0, 110.0)
    assert (dead.certain, "silent for 10.0 s" in dead.proof) == (False, True)


def test_every_change_of_the_beat_begins_the_watch_anew() -> None:
    one = settled()
    for n in range(60):
        assert one.observe([replace(FREE, beat=n)], 100.0 + 1.9 * n) == []
    assert one.observe([replace(FREE, beat=59)], 100.0 + 1.9 * 59 + 1.9) == []
    assert one.observe([replace(FREE, beat=59)], 100.0 + 1.9 * 59 + 2.0) != []


def test_a_beat_that_goes_back_is_a_change_too() -> None:
    one = settled()
    watch(one, FREE, 100.0, 101.9)
    assert one.observe([replace(FREE, beat=0)], 102.0) == []


def test_a_lock_that_becomes_free_counts_the_silence_before_it() -> None:
    one = settled()
    assert watch(one, NODE, 100.0, 101.9) == []
    assert one.observe([FREE], 102.0) != []


# --------------------------------------------------------------------------------------------- proof 3: a whole lease
def test_a_node_whose_lock_doesnt_work_is_judged_by_its_lease_alone() -> None:
    assert watch(settled(), NO_LOCK, 100.0, 102.0, 109.9) == []
    (dead,) = watch(settled(), NO_LOCK, 100.0, 109.9, 110.0)
    assert "silent" in dead.proof


# --------------------------------------------------------------------------------------------------- what it believes
def test_a_judge_that_just_started_believes_no_old_news() -> None:
    assert judge().observe([FREE, replace(NO_LOCK, id=UUID(int=2))], 1e6) == []


def test_a_judge_that_just_started_waits_half_a_lease_for_a_free_lock() -> None:
    assert watch(judge(), FREE, 50.0, 52.0, 54.9) == []
    assert watch(judge(), FREE, 50.0, 52.0, 55.0) != []


def test_a_judge_is_never_quicker_for_having_just_started() -> None:
    one = judge(lease=3.0, beat=1.0)
    assert watch(one, FREE, 50.0, 51.6) == []
    assert one.observe([FREE], 52.0) != []


def test_what_a_judge_forgets_it_watches_from_the_beginning() -> None:
    one = settled()
    assert watch(one, FREE, 100.0, 101.9) == []
    one.forget()
    assert watch(one, FREE, 102.0, 104.0, 106.9) == []
    assert one.observe([FREE], 107.0) != []


def test_a_long_pause_of_the_judge_alone_is_no_proof_without_a_second_look_at_the_beat() -> None:
    one = settled()
    one.observe([FREE], 100.0)
    assert one.observe([replace(FREE, beat=6)], 200.0) == []


def test_a_database_that_stood_still_between_question_and_answer_proves_nothing() -> None:
    one = settled()
    one.observe([NODE], 120.0, asked=100.0)
    assert one.observe([NODE], 140.0, asked=129.9) == []
    assert one.observe([NODE], 140.1, asked=130.0) != []


def test_a_node_that_went_and_came_back_is_watched_anew() -> None:
    one = settled()
    one.observe([FREE], 100.0)
    one.observe([], 101.0)
    assert watch(one, FREE, 102.0, 103.9) == []


def test_a_clock_that_doesnt_move_kills_nobody() -> None:
    one = judge()
    assert all(one.observe([FREE, replace(NO_LOCK, id=UUID(int=2))], 5.0) == [] for _ in range(1000))


def test_nodes_are_judged_each_by_itself() -> None:
    one = settled()
    others = [replace(FREE, id=UUID(int=n)) for n in range(2, 5)]
    one.observe([FREE, *others], 100.0)
    dead = one.observe([replace(FREE, beat=6), *others], 102.0)
    assert {d.id for d in dead} == {other.id for other in others}


def test_the_dead_stay_dead_until_they_are_gone_or_beat_again() -> None:
    one = settled()
    watch(one, FREE, 100.0, 102.0)
    assert one.observe([FREE], 102.0) != []
    assert one.observe([replace(FREE, beat=6)], 103.0) == []


def test_sightings_may_be_any_iterable() -> None:
    assert [d.certain for d in judge().observe(iter([replace(NODE, host_id="here")]), 0.0)] == [True]


@settings(max_examples=40, deadline=None, database=None)
@given(st.lists(st.tuples(st.floats(0, 3), st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_nobody_dies_who_was_seen_to_beat_within_two_beats(looks: list[tuple[float, bool, bool, bool]]) -> None:
    one, now, beat, changed = judge(), 0.0, 0, 0.0
    for i, (pause, beats, lock_works, locked) in enumerate(looks):
        now += pause
        if beats or i == 0:
            beat, changed = beat + 1, now
        dead = one.observe([replace(NODE, beat=beat, lock_works=lock_works, locked=locked)], now)
        if dead:
            assert now - changed >= 2 * BEAT
            assert now - changed >= LEASE or (lock_works and not locked)
        assert dead or now - changed < LEASE


@pytest.mark.parametrize("lease", [0.5, 1.0, 10.0])
def test_a_whole_lease_of_silence_is_always_enough(lease: float) -> None:
    assert watch(judge(lease=lease), NODE, 0.0, lease) != []
