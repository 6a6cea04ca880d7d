"""Logging: one line a transition, with the thread id in every line that a step logs, by whichever logger.

As text for people, or as JSON for machines: one object a line.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from keepstep.steps.secret import Cover

FORMAT = "%(asctime)s %(levelname)-7s %(name)s %(case)s%(message)s"

FIELDS = ("workflow", "thread_id", "step", "seq", "attempt", "move", "target")
"""What a line may say of a case, besides its message: names of extra fields of a record."""

_current: ContextVar[Mapping[str, Any] | None] = ContextVar("keepstep_case", default=None)
"""The case whose step this thread, or this coroutine, is running."""

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
        return f"{_prefix(extra)}{msg}", kwargs


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


@contextmanager
def about_case(**fields: Any) -> Iterator[None]:
    """Whatever is logged meanwhile, by the user's own loggers too, is about this case. fields: those of FIELDS."""
    token = _current.set(fields)
    try:
        yield
    finally:
        _current.reset(token)


class AboutCase(logging.Filter):
    """Gives each record the fields of the case whose step runs, and the words for a line of text."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through."""
        fields = _current.get()
        own = hasattr(record, "thread_id")
        if fields is not None and not own:
            for name, value in fields.items():
                setattr(record, name, value)
        record.case = "" if own or fields is None else _prefix(fields)
        return True


class JsonLines(logging.Formatter):
    """A record as a line of JSON: at, level, logger, message, what it says of a case, and the traceback as `error`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: found for name in FIELDS if (found := getattr(record, name, None)) is not None}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def configure(level: int | str, *, json_lines: bool = False, file: str | None = None) -> None:
    """Log to stderr, or to a file, unless somebody has configured logging already. For a process that is ours."""
    root = logging.getLogger()
    if root.handlers:
        return
    handler = logging.FileHandler(file) if file else logging.StreamHandler()
    handler.addFilter(AboutCase())
    handler.setFormatter(JsonLines() if json_lines else logging.Formatter(FORMAT))
    root.addHandler(handler)
    root.setLevel(level)


def _prefix(fields: Mapping[str, Any]) -> str:
    return f"[{fields['workflow']}/{fields['thread_id']} {fields['step']}#{fields['seq']}] "
