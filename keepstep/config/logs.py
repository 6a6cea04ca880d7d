"""Logging: one line a transition, with the thread id in every line that a step logs."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from keepstep.steps.secret import Cover

FORMAT = "%(asctime)s %(levelname)-7s %(name)s %(message)s"


# a library is silent unless its user says otherwise
logging.getLogger("keepstep").addHandler(logging.NullHandler())


class CaseLogger(logging.LoggerAdapter[logging.Logger]):
    """Puts workflow/thread id and the step in front of each line, and both into the record's extra fields.

    cover: takes the case's secrets out of the line, and out of the traceback below it; asked for each line, because a
    step may have learnt one since the last.
    """

    cover: Callable[[], Cover] | None = None

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """One line."""
        if self.cover is None or not self.isEnabledFor(level):
            super().log(level, msg, *args, **kwargs)
            return
        line = logging.LogRecord("", level, "", 0, msg, args, None).getMessage()
        raised = kwargs.pop("exc_info", None)
        if raised:
            error = raised if isinstance(raised, BaseException) else sys.exc_info()[1]
            line += "\n" + "".join(traceback.format_exception(error)).rstrip() if error is not None else ""
        super().log(level, "%s", self.cover().text(line), stacklevel=kwargs.pop("stacklevel", 1) + 1, **kwargs)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        extra: Mapping[str, Any] = self.extra or {}
        kwargs["extra"] = {**extra, **(kwargs.get("extra") or {})}
        return f"[{extra['workflow']}/{extra['thread_id']} {extra['step']}#{extra['seq']}] {msg}", kwargs


def case_logger(
    workflow: str, thread_id: str, step: str, seq: int, cover: Callable[[], Cover] | None = None
) -> CaseLogger:
    """The logger that a step gets as `call.log`."""
    logger = CaseLogger(
        logging.getLogger("keepstep.case"),
        {"workflow": workflow, "thread_id": thread_id, "step": step, "seq": seq},
    )
    logger.cover = cover
    return logger
