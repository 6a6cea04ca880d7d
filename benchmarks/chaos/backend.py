"""The backend: it starts the cases, and sends each one its early signal."""

from __future__ import annotations

import threading
import time

from benchmarks.chaos.plan import Plan
from benchmarks.chaos.stage import Stage
from benchmarks.chaos.workflow import chaos


class Backend:
    """A thread that starts cases when the plan says so. started: their thread ids. errors: why it gave up."""

    def __init__(self, plan: Plan, stage: Stage):
        self._plan, self._client, self._patient = plan, stage.client, stage.patient
        self.started: list[str] = []
        self.errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, name="chaos backend", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether every case is started, or can't be."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        began = time.monotonic()
        try:
            for instant, thread_id in self._plan.cases:
                time.sleep(max(0.0, began + instant - time.monotonic()))
                self._begin(thread_id)
        except BaseException as error:  # noqa: BLE001  (it is raised by whoever runs the backend)
            self.errors.append(error)

    def _begin(self, thread_id: str) -> None:
        """Both may be repeated: a start by its thread id, a signal by its key."""
        self._patient(lambda: self._client.start(chaos, thread_id, {}))
        self.started.append(thread_id)
        key = f"early of {thread_id}"
        self._patient(
            lambda: self._client.signal(chaos, thread_id, "early", answer("early", thread_id), dedupe_key=key)
        )


def answer(name: str, thread_id: str) -> str:
    """What a case is told: something that no other case is told."""
    return f"{name} for {thread_id}"
