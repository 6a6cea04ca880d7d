"""`keepstep doctor`, `keepstep queues` and `keepstep metrics`, as operators and scripts run them."""

from __future__ import annotations

import os
import signal
import subprocess
import urllib.request
from pathlib import Path

from keepstep import Client
from tests.acceptance.cli import COMMAND, Cli
from tests.support.eventually import eventually
from tests.support.worker import ROOT


def test_a_case_that_nobody_can_take_is_found(cli: Cli, client: Client) -> None:
    client.start("ten", "A", {}, queue="nobody")
    told = cli("doctor")
    assert told.code == 1
    assert "1 case waits on the queue nobody, which no live worker reads" in told.out
    assert "Start one: keepstep --workflows MODULE worker -Q nobody" in told.out
    [queue] = cli("queues", "--json").json
    assert (queue["name"], queue["depth"], queue["queued"], queue["workers"]) == ("nobody", 1, 1, 0)
    away = cli("doctor", KEEPSTEP_DATABASE_URL="postgresql://me:secret@127.0.0.1:1/x")
    assert away.code == 1
    assert "secret" not in away.out + away.err
    assert "Traceback" not in away.err


def test_metrics_are_served_until_it_is_told_to_stop(cli: Cli, client: Client, tmp_path: Path) -> None:
    client.start("ten", "A", {})
    log = tmp_path / "metrics.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*COMMAND, "metrics", "--port", "0"], env={**os.environ, **cli.env}, cwd=ROOT, stdout=out, stderr=out
        )
    try:
        url = eventually(lambda: log.read_text().partition("metrics: ")[2].strip(), 20, "metrics to be served")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=10) as answer:
            text = answer.read().decode()
        assert 'keepstep_cases{status="queued"} 1.0' in text
        assert "keepstep_up 1.0" in text
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
    taken = cli("metrics", "--port", "1", "--address", "192.0.2.1")
    assert "can't listen on 192.0.2.1:1" in taken.refuses(2)
