"""Celery's options, each with the reason why."""

from __future__ import annotations

from typing import Any

from keepstep.config.settings import Settings
from keepstep.steps.terms import DEFAULT_PRIORITY, MOST_URGENT
from keepstep.steps.workflow import DEFAULT_QUEUE

VISIBILITY_TIMEOUT = 7 * 24 * 3600
"""Seconds. Redis redelivers what is unacknowledged this long; recovery is the sweep's, this only duplicates."""


def celery_options(settings: Settings) -> dict[str, Any]:
    """The options of keepstep's own Celery app; a team's own app can update its configuration with them."""
    return {
        "broker_url": settings.broker_url,
        "broker_transport_options": transport_options(),
        # the task's result is its checkpoint
        "result_backend": None,
        "task_ignore_result": True,
        # a message is acknowledged when its step is over, and goes back when its child died: the quick way to recover
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "task_acks_on_failure_or_timeout": True,
        # a dead child's message needn't be kept for ten more seconds: the node has released its case already
        "worker_lost_wait": 1.0,
        # one message at a time: prefetched ones would be stuck behind a long step
        "worker_prefetch_multiplier": 1,
        # a finished step is not run again because the broker's connection broke under it
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        # SIGQUIT gives a step in flight the time that SIGTERM gives it, see shutdown.py
        "worker_soft_shutdown_timeout": settings.shutdown_seconds,
        "task_default_queue": DEFAULT_QUEUE,
        # messages are JSON, never pickle
        "task_serializer": "json",
        "accept_content": ["json"],
        "event_serializer": "json",
        # no promise hangs on the broker: keep trying, for ever, also at start
        "broker_connection_retry": True,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        # publishing gives up at once; the sweep rings again
        "task_publish_retry": False,
        # Flower
        "worker_send_task_events": settings.events,
        # the sender's own event has no shadow name, and overwrites the step's when it comes late (a third did)
        "task_send_sent_event": False,
        "task_track_started": True,
        "worker_hijack_root_logger": False,
        "timezone": "UTC",
        "enable_utc": True,
    }


def broker_priority(priority: int | None) -> int:
    """A case's priority (9 is the most urgent) as kombu's Redis transport has it: 0 comes first."""
    return MOST_URGENT - (DEFAULT_PRIORITY if priority is None else priority)


def transport_options() -> dict[str, Any]:
    """Redis transport options: the visibility timeout in the one place, and sockets that notice a dead peer."""
    return {
        # a list for each priority, where kombu's default has four for all ten
        "priority_steps": list(range(MOST_URGENT + 1)),
        "visibility_timeout": VISIBILITY_TIMEOUT,
        "socket_timeout": 10.0,
        "socket_connect_timeout": 2.0,
        "socket_keepalive": True,
        "health_check_interval": 10,
        "retry_on_timeout": False,
        # publishing tries a connection once: a caller or a pool process must not sleep on a dead broker, as kombu would
        # for six seconds. The worker's consumer has a loop of its own, and keeps trying.
        "max_retries": 1,
        "interval_start": 0,
        "interval_step": 0,
        "interval_max": 0,
    }
