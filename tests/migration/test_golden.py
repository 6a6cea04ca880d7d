"""What every release has written is loaded by this one, and goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from keepstep import __version__
from keepstep.checkpoint.database import Database
from keepstep.testing import Runner
from tests.golden import store
from tests.golden.fanned import fanned, small
from tests.golden.flow import golden
from tests.golden.write import found, target
from tests.support.release import releases


def test_every_release_has_its_checkpoints_kept_and_this_one_too_if_it_is_one() -> None:
    versions = {release.version for release in releases()}
    if not Version(__version__).is_devrelease:
        versions.add(__version__)
    for home in (store.HOME, store.BRANCHES):
        assert versions <= {path.stem for path in store.files(home)}, "run: python -m tests.golden.write"


def test_the_checkpoints_of_a_published_release_are_not_written_again() -> None:
    for release in releases():
        for version in (release.version, f"{release.version}.dev3"):
            with pytest.raises(SystemExit, match=f"{release.version} has been released"):
                target(version)
    assert target("999.1.0.dev0") == store.HOME / "999.1.0.json"


@pytest.mark.parametrize("path", store.files(), ids=lambda path: path.stem)
def test_cases_that_an_earlier_release_wrote_are_found_as_they_were_and_go_on(
    path: Path, database_url: str, db: Database
) -> None:
    with Runner(database_url, [golden]) as runner:
        expected, client = store.restore(db, path), runner.client
        for how, was in expected.items():
            assert found(client, how) == was, how
        assert {e.kind for e in client.history("golden", "held")} >= {"start", "step", "held"}
        assert [(call.name, call.outcome) for call in client.calls("golden", "completed") if call.name] == [
            ("book", "done")
        ]
        assert [asked.votes for asked in client.inbox() if asked.thread_id == "votes"] == [1]

        client.resume("golden", "queued")
        client.retry("golden", "held")
        client.approve("golden", "votes", actor="two")
        for how in ("waiting", "early", "both"):
            client.approve("golden", how, actor="one")
        runner.run(skip_time=True)
        for how in expected:
            case = client.get("golden", how)
            assert case.status == ("held" if how == "held" else "completed"), how
            assert case.state["end"] is (how != "held"), how
        assert client.get("golden", "both").state["seen"] == "by \0 hand"
        sent = [e.detail for e in client.history("golden", "early") if e.kind == "sent"]
        assert sent[0]["payload"] == {"kept": "for later"}


@pytest.mark.parametrize("path", store.files(store.BRANCHES), ids=lambda path: path.stem)
def test_open_fan_outs_that_an_earlier_release_wrote_are_found_as_they_were_and_go_on(
    path: Path, database_url: str, db: Database
) -> None:
    with Runner(database_url, [fanned, small]) as runner:
        expected, client = store.restore(db, path), runner.client
        for how, was in expected.items():
            assert found(client, how, "fanned") == was, how
        assert [fan.status for fan in client.branches("fanned", "open")] == ["waiting", None, None]
        client.signal("fanned.branches", "open/length#1[0]", "go", 4)
        runner.run()
        for how in ("open", "child"):
            client.signal("small", f"{how}/small#5", "seen", "yes")
        runner.run()
        whole = expected["completed"]
        for how in expected:
            case = client.get("fanned", how)
            assert (case.status, case.step, case.state["lengths"]) == ("completed", None, whole["state"]["lengths"]), (
                how
            )
            assert case.state["child"] == {"n": 1, "seen": "yes"}
            assert case.state["named"]["whole"]["result"] == how
            assert case.state["named"]["bad"]["error"]["message"] == "as it was told"
