"""What a worker says of queues that it shares with others by mistake, or that nobody uses."""

from __future__ import annotations

import pytest

from keepstep import Client
from tests.support.eventually import eventually


@pytest.mark.slow
def test_a_worker_that_gets_messages_of_another_service_says_so_once(client: Client, start_worker) -> None:
    worker = start_worker(env={"KEEPSTEP_WORKFLOWS": "keepstep.examples.intake"}, concurrency=1)
    for number in range(3):
        client.start("ten", f"A{number}", {})
    eventually(lambda: "workflow 'ten', which isn't loaded here" in worker.tail(), 20, "the warning")
    assert "If two services share queue keepstep" in worker.tail()
    worker.stop()
    assert worker.tail().count("isn't loaded here") == 1
    start_worker()
    for number in range(3):
        client.wait("ten", f"A{number}", 30)


def test_a_worker_for_a_queue_that_no_step_uses_says_so(start_worker) -> None:
    assert "no loaded step uses queue 'nosuch'" in start_worker(queues="nosuch").tail()


def test_a_worker_for_all_queues_has_nothing_to_say_about_them(start_worker) -> None:
    assert "no loaded step uses" not in start_worker().tail()
