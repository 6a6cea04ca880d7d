"""Settings, Celery's options and logging; the only place that reads the environment."""
