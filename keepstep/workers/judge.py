"""Is a node dead? Three proofs, the quickest first; pure but for the question whether a pid of this host lives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from uuid import UUID

from keepstep.checkpoint.nodes import Sighting

BEATS = 2
"""Beats for which a free lock must have stood beside an unchanged heartbeat."""


@dataclass(frozen=True, kw_only=True)
class Dead:
    """A node that is taken for dead. process: "pid:start". certain: its process is gone, not merely silent."""

    id: UUID
    host: str
    process: str
    certain: bool
    proof: str


@dataclass(frozen=True, kw_only=True)
class _Watch:
    beat: int
    since: float


class Judge:
    """One node's view of the others. It believes only what it has itself watched, on its own monotonic clock.

    lease, beat: seconds. host_id: where a pid can be judged. is_alive: whether "pid:start" of this host runs.
    """

    def __init__(self, *, lease: float, beat: float, host_id: str, is_alive: Callable[[str], bool]):
        self._lease, self._beat, self._host_id, self._is_alive = lease, beat, host_id, is_alive
        self._watched: dict[UUID, _Watch] = {}
        self._settled_at: float | None = None

    def forget(self) -> None:
        """Start watching anew: this judge has itself lost sight of the database, as the others may have."""
        self._watched.clear()
        self._settled_at = None

    def observe(self, sightings: Iterable[Sighting], now: float, asked: float | None = None) -> list[Dead]:
        """Look once. The nodes that are proven dead by what has been seen so far.

        now: monotonic seconds, when the answer came. asked: when it was asked for. A database that stood still in
        between showed nobody's silence but its own.
        """
        if self._settled_at is None:
            self._settled_at = now + self._lease
        seen = list(sightings)
        self._watched = {s.id: self._watch(s, now) for s in seen}
        return [dead for s in seen if (dead := self._verdict(s, now if asked is None else asked)) is not None]

    def _watch(self, sighting: Sighting, now: float) -> _Watch:
        before = self._watched.get(sighting.id)
        return before if before and before.beat == sighting.beat else _Watch(beat=sighting.beat, since=now)

    def _verdict(self, sighting: Sighting, now: float) -> Dead | None:
        if sighting.host_id == self._host_id and not self._is_alive(sighting.process):
            return _dead(sighting, "its process is gone", certain=True)
        silent = now - self._watched[sighting.id].since
        if silent >= self._lease:
            return _dead(sighting, f"it has been silent for {silent:.1f} s")
        # soon after the database was away, the others may not have taken their locks again yet
        settled = self._settled_at is not None and now >= self._settled_at
        enough = BEATS * self._beat if settled else max(BEATS * self._beat, self._lease / 2)
        if sighting.lock_works and not sighting.locked and silent >= enough:
            return _dead(sighting, f"its lock is free and it was silent for {silent:.1f} s")
        return None


def _dead(sighting: Sighting, proof: str, *, certain: bool = False) -> Dead:
    return Dead(id=sighting.id, host=sighting.host, process=sighting.process, certain=certain, proof=proof)
