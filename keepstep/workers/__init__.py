"""The room of processes: the Celery app and its one task, the hot path, recovery, and the client."""
