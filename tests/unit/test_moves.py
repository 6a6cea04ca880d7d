"""The table of legal moves is sound, and the database's CHECKs say the same."""

import re

import pytest
import sqlalchemy as sa

from keepstep.checkpoint.tables import cases, checkpoints, heads
from keepstep.steps.moves import LIVE, MOVES, TERMINAL, Status, is_legal, sources

FENCED = {name for name, move in MOVES.items() if move.fenced}
STEERING = {name for name, move in MOVES.items() if move.steering}


def allowed(table: sa.Table, column: str) -> set[str]:
    """The values that a CHECK lets into the column."""
    (text,) = (
        str(c.sqltext)
        for c in table.constraints
        if isinstance(c, sa.CheckConstraint) and str(c.sqltext).startswith(f"{column} in ")
    )
    return set(re.findall(r"'(\w+)'", text))


def test_every_status_is_reached_by_some_move() -> None:
    reached = {status for move in MOVES.values() for status in move.targets}
    assert reached == set(Status)


def test_live_and_terminal_statuses_are_all_there_are() -> None:
    assert set(Status) == LIVE | TERMINAL
    assert not LIVE & TERMINAL


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_only_an_operator_leads_out_of_a_terminal_status(status: Status) -> None:
    assert {name for name, move in MOVES.items() if status in move.sources} <= STEERING
    assert not is_legal(status, Status.RUNNING)


def test_an_operator_cannot_say_what_only_a_worker_knows() -> None:
    assert not STEERING & FENCED
    assert not any({Status.RUNNING, Status.HELD, Status.FAILED} & MOVES[name].targets for name in STEERING)


@pytest.mark.parametrize("status", sorted(LIVE))
def test_every_live_status_has_a_way_out(status: Status) -> None:
    assert any(status in move.sources and move.targets - {status} for move in MOVES.values())


def test_a_fenced_move_starts_from_running_and_nothing_else() -> None:
    assert FENCED
    assert all(MOVES[name].sources == {Status.RUNNING} for name in FENCED)


def test_only_a_claim_and_a_late_result_make_a_case_running() -> None:
    assert [name for name, move in MOVES.items() if Status.RUNNING in move.targets] == ["claim", "resolve"]
    assert sources("claim") == ("queued",)


def test_only_a_start_and_a_fork_are_births() -> None:
    assert [name for name, move in MOVES.items() if not move.sources] == ["start", "fork"]
    assert [after for after in Status if is_legal(None, after)] == [Status.QUEUED, Status.SLEEPING, Status.WAITING]


def test_every_move_has_its_own_name_a_target_and_no_doubt_about_its_source() -> None:
    assert all(name == move.name and move.targets for name, move in MOVES.items())


def test_what_a_person_waits_for_never_ends_without_a_move_of_its_own() -> None:
    ends = {name for name, move in MOVES.items() if Status.WAITING in move.sources}
    assert ends - STEERING == {"deliver", "expire", "join", "unfit"}


def test_the_heads_check_is_made_from_the_live_statuses() -> None:
    assert allowed(heads, "status") == set(LIVE)


def test_the_cases_check_is_made_from_the_terminal_statuses() -> None:
    assert allowed(cases, "status") == set(TERMINAL)


def test_the_checkpoints_check_lets_in_what_the_checkpointing_moves_lead_to() -> None:
    written = {status for move in MOVES.values() if move.checkpoint for status in move.targets}
    assert allowed(checkpoints, "status") == written - {Status.FAILED}


def test_moves_that_fail_hold_or_put_off_a_case_write_no_checkpoint() -> None:
    assert not any(MOVES[name].checkpoint for name in ("fail", "hold", "back_off", "defer", "recover", "wake", "retry"))


def test_a_guard_of_an_unknown_move_is_an_error_at_import() -> None:
    with pytest.raises(KeyError):
        sources("teleport")
