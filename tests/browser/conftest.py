"""A browser for the whole session, and a Flower for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from keepstep.checkpoint.database import Database
from keepstep.config.settings import of_tests
from tests.browser.chromium import Chromium, Page, binary
from tests.support.flower import Process
from tests.support.hand import Hand


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    if binary() is None:
        pytest.fail("there is no Chromium here: apt-get install chromium")
    browser = Chromium(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


@pytest.fixture
def page(chromium: Chromium) -> Iterator[Page]:
    """A tab; whatever it complains of fails the test."""
    page = chromium.page()
    page.window(1400)
    yield page
    page.close()
    assert page.complaints == []
    assert page.dialogs == []


@pytest.fixture
def flower(worker_env: dict[str, str], tmp_path: Path) -> Iterator[Process]:
    flower = Process(worker_env, tmp_path / "flower.log")
    yield flower
    flower.stop()


@pytest.fixture
def hand(db: Database) -> Hand:
    return Hand(db)


@pytest.fixture
def keep(request: pytest.FixtureRequest) -> Callable[[Page, str], None]:
    """Keep a screenshot, if `make test-browser SHOTS=folder` asks for it."""
    folder = of_tests("KEEPSTEP_SHOTS")

    def keep(page: Page, name: str) -> None:
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            page.screenshot(Path(folder) / f"{name}.png")

    return keep
