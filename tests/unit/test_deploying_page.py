"""What docs/deploying.md tells people to copy is right: the grace periods, the upcasters."""

from __future__ import annotations

import configparser
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from keepstep import Workflow
from keepstep.config.settings import Settings
from keepstep.steps.upcasts import load
from keepstep.workers.shutdown import KILL_AFTER

PAGE = (Path(__file__).parents[2] / "docs" / "deploying.md").read_text()
NEEDED = Settings().shutdown_seconds + KILL_AFTER
GOODBYE = 5
"""Seconds that the rest takes at the most: one round of the sweep, a statement, the heartbeat's end."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_systemd_tells_the_main_process_only_and_waits_long_enough() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(blocks("ini")[0])
    service = unit["Service"]
    assert (service["KillMode"], service["KillSignal"]) == ("mixed", "SIGTERM")
    assert service["Environment"] == f"KEEPSTEP_SHUTDOWN_SECONDS={Settings().shutdown_seconds:g}"
    assert float(service["TimeoutStopSec"]) >= NEEDED + GOODBYE


def test_kubernetes_waits_long_enough_and_no_shell_keeps_the_signal() -> None:
    [deployment] = [made for text in blocks("yaml") if (made := yaml.safe_load(text)).get("kind") == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["command"][:2] == ["keepstep", "worker"]
    env = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert env["KEEPSTEP_SHUTDOWN_SECONDS"] == f"{Settings().shutdown_seconds:g}"
    assert {"KEEPSTEP_DATABASE_URL", "KEEPSTEP_BROKER_URL", "KEEPSTEP_WORKFLOWS"} <= env.keys()
    assert pod["terminationGracePeriodSeconds"] >= NEEDED + GOODBYE
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_the_default_fits_into_kubernetes_default_grace_period() -> None:
    assert NEEDED + GOODBYE <= 30


class State(BaseModel):
    given: str
    family: str
    tags: list[str]


@pytest.mark.filterwarnings("ignore")
def test_the_upcasters_do_what_the_page_says() -> None:
    made: dict[str, Any] = {"Workflow": Workflow, "State": State, "BaseModel": BaseModel}
    for text in blocks("python"):
        exec(text, made)
    flow = made["flow"]
    flow.step(lambda state, call: None, name="review")
    flow.check()
    stored = {"name": "Ada Lovelace", "tag": "x"}
    assert flow.upcasts.state(stored, 1) == {"given": "Ada", "family": "Lovelace", "tag": "x", "tags": ["x"]}
    assert flow.upcasts.payload("approval", True, 1, 2) == {"approved": True}
    branch = {"item": "Ada", "result": None}
    assert load(flow.branches, branch, 1, step="check_reference").before["item"] == {"name": "Ada"}
    assert flow.branches.upcasts.result("check_reference", True, 1) == {"good": True, "score": None}
    with pytest.raises(Exception, match="can't be brought from version 2 to 3 at /tag: a_list_of_tags") as refusal:
        flow.upcasts.state({"given": "A", "family": "B"}, 2)
    assert "onboarding can't be brought from version 2 to 3 at /tag: a_list_of_tags() raised KeyError: 'tag'" in PAGE
    assert str(refusal.value) in PAGE
