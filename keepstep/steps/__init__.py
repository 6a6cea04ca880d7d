"""The pure room: definitions, outcomes, moves, decisions. No clock, no environment, no database, no Celery."""
