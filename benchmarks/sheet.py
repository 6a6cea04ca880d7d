"""A table of figures, for a terminal or for Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

WIDTH = 170
"""Columns that a table may take, also where no terminal says how many there are."""


@dataclass(kw_only=True)
class Sheet:
    """The first column names the row; the others are figures. None: not measured."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[object]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def show(self, *, markdown: bool = False) -> None:
        """Print it."""
        if markdown:
            print(self.markdown())
            return
        table = Table(title=self.title, caption="\n".join(self.notes) or None, caption_justify="left")
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="right" if number else "left", no_wrap=not number)
        for row in self.rows:
            table.add_row(*map(written, row))
        console = Console()
        console.width = max(console.width, WIDTH)
        console.print(table)

    def markdown(self) -> str:
        """As a Markdown table, with its title and notes around it."""
        head = f"| {' | '.join(self.columns)} |\n| --- |{' ---: |' * (len(self.columns) - 1)}"
        rows = "\n".join(f"| {' | '.join(map(written, row))} |" for row in self.rows)
        notes = "".join(f"\n{note}" for note in self.notes)
        return f"**{self.title}**\n\n{head}\n{rows}\n{notes}"


def written(value: object) -> str:
    """Three figures, as people read them."""
    if value is None:
        return ""
    if isinstance(value, float):
        if abs(value) >= 100:
            return f"{value:,.0f}"
        return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)
