"""Lengths of time and texts, as people read them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """A length of time in at most two units."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, size, small, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit}" + (f" {rest} {small}" if rest else "")
    return f"{whole} s"


def printable(text: str) -> str:
    """The text with whatever a terminal may act upon written out, as `\\x1b`: stored text is anybody's."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _written_out(c) for c in text)


def _written_out(character: str) -> str:
    return " " if character.isspace() and character > "\x9f" else character.encode("unicode_escape").decode()


def one_line(text: str, limit: int = 200) -> str:
    """The text in one line, printable, cut after `limit` characters."""
    joined = printable(" ".join(text.split()))
    return joined if len(joined) <= limit else joined[: limit - 1] + "…"
