"""Imported by the worker of a crash test, before it forks its pool: a hundred deaths are a hundred forks.

Celery collects garbage before each of them, a tenth of a second for a process that has loaded all its modules. What is
there by now stays anyway, and needn't be looked at each time.
"""

from __future__ import annotations

import gc

gc.collect()
gc.freeze()
