"""Messages of workflows that this worker doesn't know: most likely, another service takes the same queue."""

from __future__ import annotations

import logging
from typing import Any

from keepstep.workers.registry import Registry

log = logging.getLogger("keepstep.step")


class Strangers:
    """Notices them, and says so once for each workflow and process. The case is safe: the message is dropped."""

    def __init__(self, registry: Registry):
        self._registry = registry
        self._known: tuple[str, ...] | None = None
        self._told: set[str] = set()

    def notice(self, request: Any) -> None:
        """Look at a task's request, whose shadow name is workflow.step; nothing is asked of the database."""
        if self._known is None:  # the registry is complete by the first message
            self._known = tuple(f"{name}." for name in self._registry.versions)
        shadow = str(request.shadow or "")
        workflow = shadow.rpartition(".")[0]
        if not workflow or shadow.startswith(self._known) or workflow in self._told:
            return
        self._told.add(workflow)
        queue = (request.delivery_info or {}).get("routing_key", "?")
        log.warning(
            "a message of workflow %r, which isn't loaded here, came through queue %r and is dropped; the sweep rings "
            "again. If two services share queue %s: give each its own queues, with queue= and -Q",
            workflow,
            queue,
            queue,
        )
