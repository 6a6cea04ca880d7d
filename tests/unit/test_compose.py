"""docker-compose.yml and the Dockerfile say what the code and the settings say, so that they can't drift."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from keepstep.cli.main import COMMANDS
from keepstep.config.celery_options import celery_options
from keepstep.config.settings import Settings
from keepstep.examples.intake import intake
from keepstep.workers.registry import Registry

ROOT = Path(__file__).parents[2]
FILE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
OURS = {name: service for name, service in SERVICES.items() if service.get("image") == "keepstep"}
WORKERS = {name: service for name, service in OURS.items() if service.get("command", [""])[0] == "worker"}


def test_it_has_all_that_a_team_runs() -> None:
    assert {"postgres", "redis", "migrate", "flower", "worker", "worker-slow-api"} <= SERVICES.keys()
    assert len(WORKERS) == 2


def test_every_variable_is_a_setting() -> None:
    known = {f"KEEPSTEP_{name.upper()}" for name in Settings.model_fields} | {"KEEPSTEP_STUB_URL"}
    for name, service in OURS.items():
        given = {key for key in service["environment"] if key.startswith("KEEPSTEP_")}
        assert given <= known, name
        assert {"KEEPSTEP_DATABASE_URL", "KEEPSTEP_BROKER_URL", "KEEPSTEP_WORKFLOWS"} <= given, name


def test_the_urls_name_the_services_and_are_accepted_by_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = OURS["worker"]["environment"]
    database = re.sub(r"\$\{POSTGRES_PASSWORD:-(\w+)\}", r"\1", environment["KEEPSTEP_DATABASE_URL"])
    settings = Settings(database_url=database, broker_url=environment["KEEPSTEP_BROKER_URL"])
    assert settings.database_url == "postgresql+psycopg2://keepstep:keepstep@postgres:5432/keepstep"
    assert settings.broker_url == "redis://redis:6379/0"
    postgres = SERVICES["postgres"]["environment"]
    assert (postgres["POSTGRES_USER"], postgres["POSTGRES_DB"]) == ("keepstep", "keepstep")
    assert "POSTGRES_PASSWORD:-keepstep" in postgres["POSTGRES_PASSWORD"]


def test_the_pools_share_all_queues_of_the_example_without_overlap() -> None:
    queues = [service["command"][service["command"].index("-Q") + 1].split(",") for service in WORKERS.values()]
    flat = [queue for names in queues for queue in names]
    assert sorted(flat) == sorted(set(flat)), "two pools take the same queue"
    assert set(flat) == set(Registry([intake]).queues)


def test_a_worker_may_finish_its_step_before_it_is_killed() -> None:
    soft = celery_options(Settings())["worker_soft_shutdown_timeout"]
    for name, service in WORKERS.items():
        grace = timedelta(seconds=int(service["stop_grace_period"].removesuffix("s")))
        assert grace > timedelta(seconds=soft), name
        assert service["depends_on"]["migrate"]["condition"] == "service_completed_successfully"


def test_the_example_that_runs_by_default_has_the_services_that_its_steps_call() -> None:
    assert "keepstep.examples.intake" in OURS["worker"]["environment"]["KEEPSTEP_WORKFLOWS"]
    assert "profiles" not in SERVICES["stub"]
    for name, service in WORKERS.items():
        assert service["environment"]["KEEPSTEP_STUB_URL"] == "http://stub:8080", name
        assert service["depends_on"]["stub"]["condition"] == "service_started", name


def test_all_that_goes_with_the_example_is_marked() -> None:
    lines = (ROOT / "docker-compose.yml").read_text().splitlines()
    for line in lines:
        if "stub:" in line and not line.startswith("#"):
            assert "# example" in line or "# example" in lines[lines.index(line) - 1], line


def test_redis_never_evicts_and_keeps_what_it_has() -> None:
    command = " ".join(SERVICES["redis"]["command"])
    assert "--maxmemory-policy noeviction" in command
    assert "--appendonly yes" in command


def test_nothing_is_published_but_flower_with_a_password_and_prometheus_on_the_loopback() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"flower": ["127.0.0.1:5555:5555"], "prometheus": ["127.0.0.1:9090:9090"]}
    assert "FLOWER_PASSWORD:?" in SERVICES["flower"]["environment"]["FLOWER_BASIC_AUTH"]
    assert "--port=5555" in SERVICES["flower"]["command"]


def test_what_runs_for_long_is_watched_and_started_again() -> None:
    for name, service in SERVICES.items():
        if name == "migrate":
            continue
        assert service["restart"] == "unless-stopped", name
        assert name == "stub" or "healthcheck" in service, name


def test_prometheus_is_a_profile_that_asks_the_exporter_for_metrics_that_there_are() -> None:
    assert {name for name, service in SERVICES.items() if service.get("profiles")} == {"metrics", "prometheus"}
    scraped = yaml.safe_load(FILE["configs"]["prometheus"]["content"])["scrape_configs"]
    [target] = scraped[0]["static_configs"][0]["targets"]
    assert target == "metrics:9809"
    assert "--port=9809" in SERVICES["metrics"]["command"]
    code = (ROOT / "keepstep/monitor/metrics.py").read_text()
    alerts = yaml.safe_load(FILE["configs"]["alerts"]["content"].replace("$$", "$"))["groups"][0]["rules"]
    for alert in alerts:
        for name in re.findall(r"keepstep_(\w+)", alert["expr"]):
            told = name.removesuffix("_total").removeprefix("queue_")
            assert f'"{told}"' in code, f"{alert['alert']} asks for keepstep_{name}"
    assert "[metrics]" in (ROOT / "Dockerfile").read_text()


def test_every_command_is_one_that_keepstep_has() -> None:
    for name, service in OURS.items():
        if "entrypoint" not in service:
            assert service["command"][0] in COMMANDS, name
    assert 'ENTRYPOINT ["keepstep"]' in (ROOT / "Dockerfile").read_text()
