"""A node's tallies come from all its processes, and never keep one of them waiting."""

from __future__ import annotations

import multiprocessing

from keepstep.workers.tallies import Tallies


def test_forked_processes_are_counted_also_when_they_are_killed() -> None:
    tallies = Tallies()

    def work(tallies: Tallies) -> None:
        for _ in range(100):
            tallies.count("stale")
        tallies.count("rung_again", 7)

    context = multiprocessing.get_context("fork")
    children = [context.Process(target=work, args=(tallies,)) for _ in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert tallies.counted() == {"stale": 300, "rung_again": 21}
    tallies.count("paused")
    assert tallies.counted() == {"stale": 300, "rung_again": 21, "paused": 1}


def test_a_full_pipe_drops_what_comes_and_blocks_nobody() -> None:
    tallies = Tallies()
    for _ in range(100):
        tallies.count("stale", 5000)
    assert 0 < tallies.counted()["stale"] <= 500_000
    tallies.count("ended")
    assert tallies.counted()["ended"] == 1, "there is room again"
