"""Transactional steps: what they write to the database is theirs together with their checkpoint, or not at all."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import sqlalchemy as sa
from pydantic import BaseModel
from sqlalchemy.orm import Session
from tenacity import wait_fixed

from keepstep import Call, Retry, Workflow, fail, wait_for

_INSERT = sa.text("insert into booked (thread_id, attempt) values (:thread_id, :attempt)")


class State(BaseModel):
    """how: what the first attempt does after it has written."""

    how: str = ""
    booked: int = 0


def book(state: State, call: Call) -> Any:
    connection = call.connection
    connection.execute(_INSERT, {"thread_id": call.thread_id, "attempt": call.attempt})
    how = state.how if call.attempt == 1 or state.how.startswith("always ") else ""
    match how.removeprefix("always "):
        case "raise":
            raise OSError("after the insert")
        case "bad result":
            return {"booked": "no number"}
        case "fail":
            return fail("refused by the bank")
        case "commit":
            connection.commit()
        case "rollback":
            connection.rollback()
        case "swallow":
            try:
                connection.commit()
            except Exception:  # noqa: BLE001  (as careless code does)
                connection.execute(_INSERT, {"thread_id": call.thread_id, "attempt": -1})
        case "raw commit":
            connection.execute(sa.text("commit"))
        case "deferred":
            connection.execute(sa.text("insert into deferred values (1)"))
        case "savepoint":
            with connection.begin_nested() as part:
                connection.execute(_INSERT, {"thread_id": call.thread_id, "attempt": -1})
                part.rollback()
        case "session":
            with Session(bind=connection) as session:
                session.execute(_INSERT, {"thread_id": "by a session", "attempt": call.attempt})
                session.commit()
        case "set":
            connection.execute(sa.text("set statement_timeout = 12345"))
        case "show":
            timeout = connection.execute(sa.text("show statement_timeout")).scalar_one()
            return {"booked": int(timeout != "0")}
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "cut":
            connection.execute(sa.text("select pg_terminate_backend(pg_backend_pid())"))
        case "hang":
            time.sleep(3)
        case "wait":
            return wait_for("answer", update={"booked": 1})
    return {"booked": state.booked + 1}


transactional = Workflow("transactional", state=State, retry=Retry(attempts=3, wait=wait_fixed(0.1)))
transactional.step(name="book", transactional=True)(book)
transactional.step(name="end")(lambda state, call: None)

ordinary = Workflow("ordinary", state=State)


@ordinary.step
def ask_for_a_connection(state: State, call: Call) -> Any:
    return {"booked": int(call.connection is not None)}


ALL = [transactional, ordinary]
