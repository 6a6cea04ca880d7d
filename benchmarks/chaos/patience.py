"""The patience of backend code: it tries again while the database is away."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import psycopg2
from sqlalchemy.exc import SQLAlchemyError

from keepstep import DatabaseUnavailable, StartPending

T = TypeVar("T")

LONGEST = 120.0
EVERY = 0.1


class Patience:
    """Called with what is to be done. surprises: errors that came which the client doesn't document, by type."""

    def __init__(self) -> None:
        self.surprises: Counter[str] = Counter()

    def __call__(self, act: Callable[[], T]) -> T:
        """Do it, again and again if need be; for LONGEST seconds."""
        end = time.monotonic() + LONGEST
        while True:
            try:
                return act()
            except (DatabaseUnavailable, StartPending, SQLAlchemyError, psycopg2.Error) as error:
                if not isinstance(error, DatabaseUnavailable | StartPending):
                    self.surprises[f"{type(error).__module__}.{type(error).__name__}"] += 1
                if time.monotonic() > end:
                    raise
            time.sleep(EVERY)
