"""Several requests as one task of the pool: each keeps its own callbacks, and hears of its own step."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

from billiard.exceptions import Terminated

log = logging.getLogger("keepstep.step")

Finished = Callable[[Sequence[Any]], None]
"""Called with what is told of each, see `run_batch`."""


def submit(
    pool: Any,
    run: Callable[..., Any],
    group: Sequence[Any],
    *,
    slack: float,
    finished: Finished,
    ended: Callable[[], None],
) -> None:
    """Hand the requests to a process of the pool, all of one time limit. slack: seconds that their company may take.

    finished: called when they have run; of any other end each request is told as if it were alone. ended: called first,
    however it ended.
    """
    hard, soft = group[0].time_limits

    def each(method: str) -> Callable[..., None]:
        def tell(*args: Any, **options: Any) -> None:
            for request in group:
                getattr(request, method)(*args, **options)

        return tell

    def timed_out(soft: bool, timeout: float) -> None:  # billiard's own names
        if soft:
            log.warning("one of %s took longer than %s s", ", ".join(r.argsrepr for r in group), timeout)
        else:
            each("on_timeout")(soft, timeout)

    def failed(told: Any, *args: Any, **options: Any) -> None:
        ended()
        revoked = isinstance(getattr(told.exception, "exc", told.exception), Terminated)
        for request in group:
            if revoked and not request.revoked():
                request.lose_company()
            else:
                request.on_failure(told, *args, **options)

    def done(told: tuple[int, Any, float]) -> None:
        ended()
        if told[0]:
            each("on_success")(told)  # which knows an error
        else:
            finished(told[1])

    for request in group:
        request.accompanied = True
    result = pool.apply_async(
        run,
        args=([(request.args[0], request.args[1]) for request in group], soft),
        accept_callback=each("on_accepted"),
        timeout_callback=timed_out,
        callback=done,
        error_callback=failed,
        soft_timeout=soft and soft + slack,
        timeout=hard and hard + slack,
        correlation_id=group[0].id,
    )
    for request in group:
        request._apply_result = None if result is None else ref(result)
