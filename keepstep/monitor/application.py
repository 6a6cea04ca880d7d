"""Flower's application with the pages about cases: its options, its logins and its look are Flower's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flower.app import Flower, rewrite_handler
from flower.urls import settings as flower_settings
from tornado.web import StaticFileHandler, url

from keepstep.checkpoint.reads import Case
from keepstep.config.settings import Settings
from keepstep.monitor import tasks
from keepstep.monitor.case_list import CaseByName, CaseList
from keepstep.monitor.case_page import CasePage, CaseState, CaseVersion
from keepstep.monitor.desk import Desk
from keepstep.monitor.folders import STATIC, Folders
from keepstep.monitor.inbox_page import DecisionPage, InboxPage
from keepstep.monitor.verb_page import VerbPage
from keepstep.monitor.verbs import VERBS

_ID = "([0-9a-f-]{36})"


class CasesFlower(Flower):
    """Flower, with a Cases tab and an inbox."""

    def __init__(self, given: Settings, options: Any, **kwargs: Any):
        theirs = Path(str(flower_settings["template_path"]))
        kwargs.setdefault("xsrf_cookie_kwargs", {"samesite": "Strict"})
        super().__init__(options=options, template_loader=Folders(theirs), **kwargs)
        self.desk = Desk(given)
        handlers = _handlers(self.desk)
        if options.url_prefix:
            handlers = [rewrite_handler(handler, options.url_prefix) for handler in handlers]
        self.add_handlers(r".*", handlers)

    def is_step(self, task: Any) -> bool:
        """Whether one of Flower's tasks looks like a step of a case."""
        return tasks.is_step(task)

    def tasks_of(self, case: Case) -> list[Any]:
        """Flower's tasks that ran steps of the case, as far as its memory goes."""
        return tasks.of_case(list(self.events.state.tasks.values()), case)


def _handlers(desk: Desk) -> list[Any]:
    shared = {"desk": desk}
    verbs = "|".join(VERBS)
    return [
        url(r"/cases", CaseList, shared, name="keepstep_cases"),
        url(r"/cases/by-name", CaseByName, shared, name="keepstep_by_name"),
        url(r"/cases/of-task/([^/]+)", tasks.CaseOfTask, shared, name="keepstep_task"),
        url(rf"/cases/{_ID}", CasePage, shared, name="keepstep_case"),
        url(rf"/cases/{_ID}/version", CaseVersion, shared, name="keepstep_version"),
        url(rf"/cases/{_ID}/state/([0-9]{{1,9}})", CaseState, shared, name="keepstep_state"),
        url(rf"/cases/{_ID}/({verbs})", VerbPage, shared, name="keepstep_verb"),
        url(rf"/cases/{_ID}/decide/([^/]+)", DecisionPage, shared, name="keepstep_decision"),
        url(r"/inbox", InboxPage, shared, name="keepstep_inbox"),
        url(r"/keepstep-static/(.*)", StaticFileHandler, {"path": str(STATIC)}, name="keepstep_static"),
    ]
