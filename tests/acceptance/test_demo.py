"""`keepstep demo`, the project's main job."""

from __future__ import annotations

import pytest

from tests.acceptance.cli import Cli


def test_the_demo_kills_a_worker_at_step_34_and_only_that_step_runs_again_under_one_key() -> None:
    ran = Cli({})("demo", "--json", timeout=60)
    shown = ran.json
    assert shown["ok"] is True, ran.err
    assert all(verdict["kept"] for verdict in shown["verdicts"])

    steps = [stage for stage in shown["timeline"] if stage["kind"] == "step"]
    assert [stage["number"] for stage in steps] == list(range(1, 43))
    assert [stage["number"] for stage in steps if stage["attempts"] > 1] == [34]
    assert [(stage["calls"], stage["effects"]) for stage in steps if stage["number"] == 34] == [(2, 1)]
    assert {key["effects"] for key in shown["keys"].values()} == {1}
    assert sorted(key["raw"] for key in shown["keys"].values())[-2:] == [1, 2]
    assert shown["seconds"] < 60


@pytest.mark.slow
def test_the_demo_reads_well_when_it_is_piped() -> None:
    shown = Cli({})("demo", timeout=60)
    assert shown.code == 0, shown.err
    assert "\x1b" not in shown.out
    assert max(len(line) for line in shown.out.splitlines()) <= 80
    assert "kill -9" in shown.out
    assert "all promises kept" in shown.out
