"""Carry the plan out: a thread for each thing that is struck, one strike after the other."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping

import redis

from benchmarks.chaos import plan as faults
from benchmarks.chaos.fleet import Slot
from benchmarks.chaos.plan import Plan, Strike
from benchmarks.chaos.stage import Stage


class Lanes:
    """All lanes of a run. struck: how often each fault was. errors: of the lanes themselves, not of keepstep."""

    def __init__(self, plan: Plan, stage: Stage):
        self._plan, self._stage = plan, stage
        self._over = threading.Event()
        self.struck: Counter[str] = Counter(dict.fromkeys(faults.FAULTS.values(), 0))
        self.errors: list[BaseException] = []
        self._threads = [self._lane(slot.name, self._on(slot), slot) for slot in stage.fleet.slots]
        self._threads += [
            self._lane("broker", {faults.FLUSH: self._flush, faults.BROKER: self._lose_the_broker}),
            self._lane("database", {faults.DATABASE: lambda _: stage.servers.postgres.restart_immediate()}),
            self._lane(
                "connections",
                {
                    faults.CUT: lambda strike: stage.proxy.cut(_share(strike), strike.chance),
                    faults.LOST: lambda strike: stage.proxy.lose_replies(_share(strike), strike.chance),
                    faults.LINGER: lambda strike: stage.proxy.leave_unaware(
                        _share(strike), strike.chance, strike.lasts
                    ),
                },
            ),
        ]

    def start(self) -> None:
        """Begin to strike."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Strike no more; what was struck is whole again when this returns."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        for slot in self._stage.fleet.slots:
            slot.look()

    def _lane(
        self, name: str, acts: Mapping[str, Callable[[Strike], object]], slot: Slot | None = None
    ) -> threading.Thread:
        def strike_on() -> None:
            try:
                for strike in self._plan.strikes(name):
                    if self._over.wait(strike.after):
                        return
                    if slot is not None:
                        slot.look()
                    if acts[strike.fault](strike) is not False:
                        self.struck[strike.fault] += 1
            except BaseException as error:  # noqa: BLE001  (it is raised by whoever runs the lanes)
                self.errors.append(error)

        return threading.Thread(target=strike_on, name=f"chaos {name}", daemon=True)

    def _on(self, slot: Slot) -> Mapping[str, Callable[[Strike], object]]:
        def kill_the_tree(strike: Strike) -> None:
            slot.kill()
            self._over.wait(strike.lasts)
            slot.start()

        return {
            faults.CHILD: lambda strike: slot.kill_child(strike.chance),
            faults.TREE: kill_the_tree,
            faults.FREEZE: lambda strike: slot.freeze(strike.lasts, self._over),
            faults.DEPLOY: lambda _: slot.deploy(),
        }

    def _flush(self, _: Strike) -> None:
        with redis.Redis.from_url(self._stage.servers.valkey.url) as valkey:
            valkey.flushall()

    def _lose_the_broker(self, strike: Strike) -> None:
        self._stage.servers.valkey.kill()
        self._over.wait(strike.lasts)
        self._stage.servers.valkey.start()


def _share(strike: Strike) -> float:
    """Of the connections: some of them, or nearly all."""
    return strike.chance.uniform(0.1, 1.0)
