"""A finding, and what the looks have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from keepstep.checkpoint.nodes import NodeView
from keepstep.config.settings import Settings
from keepstep.workers.client import Client


class Level(StrEnum):
    """How bad it is. BAD: cases don't go on, or may be lost. WARN: some day. OK: looked at, and in order."""

    OK = "ok"
    WARN = "warning"
    BAD = "error"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """what: one sentence. do: what to do about it; empty where nothing need be done."""

    level: Level
    what: str
    do: str = ""


@dataclass(kw_only=True)
class Patient:
    """What is looked at. nodes: all that are registered, the silent ones included; read by the look at the workers."""

    client: Client
    settings: Settings
    nodes: Sequence[NodeView] = field(default=())
    database_away: bool = False

    @property
    def live(self) -> list[NodeView]:
        """The nodes whose heartbeat is young."""
        return [node for node in self.nodes if node.silent < self.settings.lease_seconds]


def ok(what: str) -> Finding:
    """Looked at, and in order."""
    return Finding(level=Level.OK, what=what)


def warn(what: str, do: str) -> Finding:
    """To be mended some day."""
    return Finding(level=Level.WARN, what=what, do=do)


def bad(what: str, do: str) -> Finding:
    """To be mended now."""
    return Finding(level=Level.BAD, what=what, do=do)
