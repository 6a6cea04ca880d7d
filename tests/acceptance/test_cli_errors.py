"""What goes wrong is one line on stderr and an exit code, never a traceback."""

from __future__ import annotations

import socket
import uuid
from pathlib import Path

import pytest
import sqlalchemy as sa

from keepstep import Client
from keepstep.checkpoint.database import Database
from keepstep.dev.valkey import Valkey
from tests.acceptance.cli import Cli
from tests.conftest import StartWorker
from tests.support.worker import ROOT

NOWHERE = "postgresql://postgres@127.0.0.1:1/nowhere"


@pytest.mark.parametrize(
    "command",
    [
        ("list",),
        ("show", "ten", "A-1"),
        ("history", "ten", "A-1"),
        ("start", "ten", "A-1"),
        ("signal", "ten", "A-1", "go"),
        ("retry", "ten", "A-1"),
        ("db", "check"),
        ("db", "upgrade"),
    ],
    ids=" ".join,
)
def test_with_the_database_down_every_command_exits_with_5(cli: Cli, command: tuple[str, ...]) -> None:
    assert "PostgreSQL at postgresql://" in cli(*command, KEEPSTEP_DATABASE_URL=NOWHERE).refuses(5)


def test_a_password_is_not_shown_in_an_error(cli: Cli) -> None:
    url = "postgresql://me:secret@127.0.0.1:1/nowhere"
    assert "secret" not in cli("list", KEEPSTEP_DATABASE_URL=url).refuses(5)


@pytest.mark.slow
def test_with_redis_down_a_case_is_stored_at_once_and_starts_when_redis_is_back(
    cli: Cli, client: Client, start_worker: StartWorker, tmp_path: Path
) -> None:
    valkey = Valkey(tmp_path / "valkey")
    valkey.start()
    try:
        valkey.stop()
        down = {"KEEPSTEP_BROKER_URL": valkey.url}
        started = cli("start", "ten", "R-1", **down)
        assert started.code == 0
        assert "it starts when Redis" in started.err
        valkey.start()
        start_worker(env=down)
        assert client.wait("ten", "R-1", timeout=20).status == "completed"
    finally:
        valkey.stop()


@pytest.mark.parametrize("command", ["show", "history", "retry"])
def test_an_unknown_case_exits_with_3(cli: Cli, command: str) -> None:
    assert "ten/NOPE: no such case" in cli(command, "ten", "NOPE").refuses(3)


def test_a_signal_to_an_unknown_case_exits_with_3(cli: Cli) -> None:
    cli("signal", "ten", "NOPE", "go").refuses(3)


def test_an_unknown_workflow_exits_with_3_and_names_the_known_ones(cli: Cli) -> None:
    assert "loaded: approve, careful" in cli("start", "nope", "A-1").refuses(3)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("start", "ten", "A-1", "--state", "{x"), "is not JSON"),
        (("start", "ten", "A-1", "--state", "[1]"), "must be a JSON object"),
        (("start", "ten", "A-1", "--state", "@/no/such/file"), "can't be read"),
        (("start", "ten", "A-1", "--state", '{"seconds": "x"}'), "State/seconds"),
        (("start", "ten", "x" * 2000), "thread id"),
        (("start", "ten", ""), "thread id is empty"),
        (("start", "ten"), "Missing argument"),
        (("list", "--status", "nope"), "--status"),
        (("nope",), "No such command"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_wrong_usage_exits_with_2(cli: Cli, args: tuple[str, ...], says: str) -> None:
    assert says in cli(*args).refuses(2)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("KEEPSTEP_DATABASE_URL", "mysql://localhost/x"),
        ("KEEPSTEP_BROKER_URL", "amqp://localhost"),
        ("KEEPSTEP_LEASE_SECONDS", "soon"),
        ("KEEPSTEP_WORKFLOWS", "no.such.module"),
    ],
)
@pytest.mark.parametrize("command", [("worker",), ("start", "ten", "A-1")], ids=" ".join)
def test_a_wrong_setting_exits_with_2_and_is_named(
    cli: Cli, command: tuple[str, ...], variable: str, value: str
) -> None:
    assert variable in cli(*command, **{variable: value}).refuses(2)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("x = = 1", "can't be imported: SyntaxError"),
        ("import no_such_dependency", "can't be imported: ModuleNotFoundError: No module named 'no_such_dependency'"),
        ("from keepstep import Retry\nRetry(attempts=0)", "broken_flows.py:2: Retry(attempts=0): at least one"),
        ("from keepstep import Workflow\nWorkflow('a', state=dict, versoin=2)", "broken_flows.py:2: Workflow() has no"),
    ],
)
def test_a_module_that_breaks_is_one_line_with_its_error(cli: Cli, tmp_path: Path, body: str, says: str) -> None:
    (tmp_path / "broken_flows.py").write_text(body)
    there = {"KEEPSTEP_WORKFLOWS": "broken_flows", "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    assert says in cli("worker", **there).refuses(2)


def test_a_database_url_that_cant_be_read_is_one_line_and_not_shown(cli: Cli) -> None:
    line = cli("list", KEEPSTEP_DATABASE_URL="postgresql://u:secret@h:54x2/db").refuses(2)
    assert "KEEPSTEP_DATABASE_URL" in line
    assert "secret" not in line


@pytest.mark.parametrize("command", [("worker",), ("list",)], ids=" ".join)
def test_a_role_without_rights_is_one_line(cli: Cli, database_url: str, db: Database, command: tuple[str, ...]) -> None:
    role = f"weak_{uuid.uuid4().hex[:8]}"
    db.run(sa.text(f"create role {role} login"), {})
    try:
        line = cli(*command, KEEPSTEP_DATABASE_URL=database_url.replace("postgres@", f"{role}@", 1)).refuses(1)
    finally:
        db.run(sa.text(f"drop role {role}"), {})
    assert "permission denied for schema keepstep" in line
    if command == ("worker",):
        assert f"grant usage on schema keepstep to {role}" in line


def test_a_worker_without_workflows_says_where_to_name_them(cli: Cli) -> None:
    assert "KEEPSTEP_WORKFLOWS" in cli("worker", KEEPSTEP_WORKFLOWS="").refuses(2)


def test_another_input_under_the_same_thread_id_exits_with_4(cli: Cli) -> None:
    cli("start", "ten", "C-1")
    assert "another input" in cli("start", "ten", "C-1", "--state", '{"seconds": 1}').refuses(4)


def test_a_payload_that_does_not_fit_exits_with_2_and_a_second_decision_with_4(
    cli: Cli, client: Client, start_worker: StartWorker
) -> None:
    start_worker()
    cli("start", "approve", "P-1")
    answer = ("signal", "approve", "P-1", "approval", "--payload")
    cli(*answer, '{"approved": true}')  # delivered, or kept until it is asked for
    assert client.wait("approve", "P-1", timeout=20).status == "completed"
    assert "takes no signal any more" in cli(*answer, '{"approved": false}').refuses(4)


@pytest.mark.parametrize("command", [("list",), ("start", "ten", "A-1"), ("db", "check"), ("worker",)], ids=" ".join)
def test_on_a_database_without_tables_exits_with_6_and_says_which_command_to_run(
    cli: Cli, empty_database_url: str, command: tuple[str, ...]
) -> None:
    refused = cli(*command, KEEPSTEP_DATABASE_URL=empty_database_url)
    assert "Run: keepstep db upgrade" in refused.refuses(6)


def test_db_upgrade_makes_the_tables_and_can_be_repeated(cli: Cli, empty_database_url: str) -> None:
    there = {"KEEPSTEP_DATABASE_URL": empty_database_url}
    first, second = cli("db", "upgrade", "--json", **there).json, cli("db", "upgrade", "--json", **there).json
    assert first["before"] is None
    assert second["before"] == second["after"] == first["after"]
    assert cli("db", "check", "--json", **there).json == {"ok": True}
    assert cli("list", "--json", **there).json == []


def test_help_lists_the_exit_codes(cli: Cli) -> None:
    assert "PostgreSQL or Redis can't be reached" in cli("--help").out


def test_flower_on_a_taken_port_says_so(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "Choose another --port" in cli("flower", f"--port={taken.getsockname()[1]}").refuses(2)
