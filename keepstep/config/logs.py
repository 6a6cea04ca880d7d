"""Logging: one line a transition, with the thread id in every line that a step logs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from typing import Any

FORMAT = "%(asctime)s %(levelname)-7s %(name)s %(message)s"


# a library is silent unless its user says otherwise
logging.getLogger("keepstep").addHandler(logging.NullHandler())


class CaseLogger(logging.LoggerAdapter[logging.Logger]):
    """Puts workflow/thread id and the step in front of each line, and both into the record's extra fields."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        extra: Mapping[str, Any] = self.extra or {}
        kwargs["extra"] = {**extra, **(kwargs.get("extra") or {})}
        return f"[{extra['workflow']}/{extra['thread_id']} {extra['step']}#{extra['seq']}] {msg}", kwargs


def case_logger(workflow: str, thread_id: str, step: str, seq: int) -> CaseLogger:
    """The logger that a step gets as `call.log`."""
    return CaseLogger(
        logging.getLogger("keepstep.case"),
        {"workflow": workflow, "thread_id": thread_id, "step": step, "seq": seq},
    )
