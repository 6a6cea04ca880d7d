"""The documents say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

from keepstep.config.settings import Settings
from keepstep.steps.moves import MOVES

ROOT = Path(__file__).parents[2]


def test_the_state_diagram_shows_the_legal_moves_and_no_others() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    drawn = {
        (before, after, name)
        for before, after, names in re.findall(r"^    (\S+) --> (\S+): (.+)$", text, re.MULTILINE)
        for name in names.split(", ")
    }
    legal = {
        (str(before) if before else "[*]", str(after), move.name)
        for move in MOVES.values()
        for before in (move.sources or {None})
        for after in move.targets
    }
    assert drawn == legal


def test_every_linked_file_exists() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links {target}"


def test_every_metric_is_documented() -> None:
    text = (ROOT / "docs" / "monitoring.md").read_text()
    code = (ROOT / "keepstep" / "monitor" / "metrics.py").read_text()
    plain = re.findall(r'_(?:one|counter|gauge|histogram)\("(\w+)"', code)
    of_queue = [f"queue_{name}" for name in re.findall(r'of_queue\("(\w+)"', code)]
    assert len(plain) > 10
    assert len(of_queue) == 6
    for name in [*plain, *of_queue]:
        assert f"`keepstep_{name}" in text, name


def test_every_setting_is_documented() -> None:
    text = (ROOT / "docs" / "settings.md").read_text()
    for name in Settings.model_fields:
        assert f"`KEEPSTEP_{name.upper()}`" in text, name
