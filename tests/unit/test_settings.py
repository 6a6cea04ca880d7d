"""Settings come from variables with a unit, are refused by the variable's name, and never show a password."""

import os
from typing import Any

import pytest

from keepstep.config.settings import Settings, postgres_url, read_settings, without_password
from keepstep.steps.errors import BadSetting


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith("KEEPSTEP_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg2"])
def test_every_spelling_of_a_postgresql_url_becomes_psycopg2s(scheme: str) -> None:
    assert postgres_url(f"{scheme}://u:p%40@h:5/db?x=1") == "postgresql+psycopg2://u:p%40@h:5/db?x=1"


def test_a_normalised_url_stays_as_it_is() -> None:
    once = postgres_url("postgres://h/db")
    assert postgres_url(once) == once
    assert read_settings(database_url="postgres://h/db", heartbeat_url="postgresql://h2/db").heartbeat_url == (
        "postgresql+psycopg2://h2/db"
    )


@pytest.mark.parametrize(
    "url", ["", "h/db", "mysql://h/db", "postgresql", "postgresql://", "postgresql+asyncpg://h/db", "http://h"]
)
def test_what_is_no_postgresql_url_is_refused_by_the_variable(url: str) -> None:
    with pytest.raises(BadSetting, match=r"^KEEPSTEP_DATABASE_URL: .*is not a PostgreSQL URL such as"):
        read_settings(database_url=url)
    with pytest.raises(BadSetting, match=r"^KEEPSTEP_HEARTBEAT_URL: "):
        read_settings(heartbeat_url=url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:hunter2@h:54x2/db",
        "postgresql://u:hunter2@h:99999/db",
        "postgresql://u:hunter2@[::1/db",
        "postgresql://u:hunter2/3@h/db",
        "postgresql://u:hunter2#3@h/db",
    ],
)
def test_a_database_url_whose_host_and_port_cant_be_told_is_refused_without_showing_it(url: str) -> None:
    for name in ("database_url", "heartbeat_url"):
        with pytest.raises(BadSetting, match=f"^KEEPSTEP_{name.upper()}: its host and port can't be told") as refusal:
            read_settings(**{name: url})
        assert "hunter2" not in str(refusal.value)
        assert "54x2" not in str(refusal.value)


@pytest.mark.parametrize("url", ["redis://:hunter2@h:63x9/0", "rediss://:hunter2/3@h/0", "valkey://h:99999"])
def test_a_broker_url_whose_host_and_port_cant_be_told_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(BadSetting, match=r"^KEEPSTEP_BROKER_URL: its host and port can't be told") as refusal:
        read_settings(broker_url=url)
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("url", ["postgresql:///db?host=/run/postgresql", "postgresql://u@[::1]:5/db", "postgres://h"])
def test_a_database_url_may_leave_out_what_libpq_knows(url: str) -> None:
    assert read_settings(database_url=url).database_url.startswith("postgresql+psycopg2://")


@pytest.mark.parametrize(
    ("url", "taken"),
    [
        ("redis://h:1/2", "redis://h:1/2"),
        ("rediss://h", "rediss://h?ssl_cert_reqs=required"),
        ("valkeys://u:p@h/1?ssl_ca_certs=ca.pem", "rediss://u:p@h/1?ssl_ca_certs=ca.pem&ssl_cert_reqs=required"),
        ("rediss://h/0?ssl_cert_reqs=none", "rediss://h/0?ssl_cert_reqs=none"),
        (
            "rediss://h:1/0;rediss://i:1/0",
            "rediss://h:1/0?ssl_cert_reqs=required;rediss://i:1/0?ssl_cert_reqs=required",
        ),
        ("valkey://u:p@h/1", "redis://u:p@h/1"),
        ("sentinel://h:26379;sentinel://i:26379", "sentinel://h:26379;sentinel://i:26379"),
    ],
)
def test_a_broker_url_is_redis_or_valkey(url: str, taken: str) -> None:
    assert read_settings(broker_url=url).broker_url == taken


@pytest.mark.parametrize("url", ["", "amqp://h", "h:6379", "http://h"])
def test_what_is_no_broker_url_is_refused_by_the_variable(url: str) -> None:
    with pytest.raises(BadSetting, match=r"^KEEPSTEP_BROKER_URL: .*is not a Redis URL"):
        read_settings(broker_url=url)


@pytest.mark.parametrize("name", ["database_url", "heartbeat_url", "broker_url"])
@pytest.mark.parametrize("url", ["mysql://user:hunter2@h/db", "amqp://:hunter2@h", "ftp://u:hunter2@h:notaport/x"])
def test_a_refused_url_never_shows_its_password(name: str, url: str) -> None:
    with pytest.raises(BadSetting) as refusal:
        read_settings(**{name: url})
    assert "hunter2" not in str(refusal.value)
    assert refusal.value.__cause__ is None
    assert refusal.value.__suppress_context__


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p@h:5/db?a=b", "postgresql://u:***@h:5/db?a=b"),
        ("redis://:p@h/0", "redis://:***@h/0"),
        ("redis://:p%40q@[::1]:6379/0", "redis://:***@[::1]:6379/0"),
        ("redis://u:p@x@h/0", "redis://u:***@h/0"),
        ("redis://u@h/0", "redis://u@h/0"),
        ("redis://h/0", "redis://h/0"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown


@pytest.mark.parametrize(
    ("value", "modules"),
    [
        ("", ()),
        (" , ,", ()),
        ("a", ("a",)),
        ("a.b, c ,,d", ("a.b", "c", "d")),
        ("a\n,b", ("a", "b")),
    ],
)
def test_workflows_are_split_at_commas(monkeypatch: pytest.MonkeyPatch, value: str, modules: tuple[str, ...]) -> None:
    monkeypatch.setenv("KEEPSTEP_WORKFLOWS", value)
    assert read_settings().workflows == modules


def test_workflows_may_be_given_as_a_list() -> None:
    assert read_settings(workflows=["a", "b"]).workflows == ("a", "b")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lease_seconds", "0"),
        ("lease_seconds", "ten"),
        ("lease_seconds", "nan"),
        ("beat_seconds", "-1"),
        ("ring_batch", "0"),
        ("ring_batch", "1.5"),
        ("max_crashes", "0"),
        ("max_node_deaths", "none"),
        ("unknown_step_grace_seconds", "-0.1"),
        ("max_state_bytes", "1023"),
        ("publish_timeout_seconds", "0"),
        ("show_thread_ids", "perhaps"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"KEEPSTEP_{name.upper()}", value)
    with pytest.raises(BadSetting, match=f"^KEEPSTEP_{name.upper()}: "):
        read_settings()


def test_an_override_wins_over_the_environment_and_none_is_no_override(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEPSTEP_LEASE_SECONDS", "20")
    assert read_settings(lease_seconds=5).lease_seconds == 5
    assert read_settings(lease_seconds=None).lease_seconds == 20


def test_settings_cant_be_changed_once_read() -> None:
    one: Any = read_settings()
    with pytest.raises(ValueError, match="frozen"):
        one.lease_seconds = 1


def test_every_default_is_itself_a_legal_value() -> None:
    assert Settings(**read_settings().model_dump()) == read_settings()
