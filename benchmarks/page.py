"""A page of the docs with marked tables, which a measurement writes anew."""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from benchmarks.sheet import Sheet

APART = {"--into", "--out", "--from", "--only"}
"""Options that say nothing about a table's figures; each has a value."""

LOAD = os.getloadavg()[0]
"""Of the machine, before the measurement: much above zero means that others worked on it, too."""


def write(page: Path, name: str, sheet: Sheet, module: str, *options: str) -> None:
    """Put the table between `<!-- measured: NAME -->` and `<!-- end -->`, with what reproduces it."""
    begin = f"<!-- measured: {name} -->"
    marked = re.compile(rf"{re.escape(begin)}\n.*?<!-- end -->", re.DOTALL)
    text = page.read_text()
    if not marked.search(text):
        raise SystemExit(f"{page} has no place for it: a line `{begin}`, and below it one `<!-- end -->`.")
    new = f"{begin}\n{sheet.markdown()}\n{how(module, *options)}\n<!-- end -->"
    page.write_text(marked.sub(lambda _: new, text))


def how(module: str, *options: str) -> str:
    """The command, the machine and the day, as a line of Markdown."""
    command = shlex.join(["python", "-m", module, *options, *_said(sys.argv[1:])])
    memory = round(psutil.virtual_memory().total / 2**30)
    machine = f"{os.cpu_count()} cores, {memory} GiB, Python {platform.python_version()}"
    return f"`{command}`, {machine}, load {LOAD:.1f} when it began, {time.strftime('%Y-%m-%d')}"


def _said(words: Sequence[str]) -> list[str]:
    said, skip = [], False
    for word in words:
        option, equals, _ = word.partition("=")
        if skip or option in APART:
            skip = option in APART and not equals
        else:
            said.append(word)
    return said
