"""The peers' work as a workflow: a state is carried along, each step appends a small value. Workers load it, too."""

from __future__ import annotations

import importlib
import json
import os
import sys
from argparse import Namespace
from typing import Any

from pydantic import BaseModel

from keepstep import Call, Workflow

FOLDER, ARGUMENTS = "PEERS", "PEERS_ARGUMENTS"
"""The variables that name the folder of the peers' harness, and what a driver tells its workers of its command line."""


def harness() -> Any:
    """The module that all peers share: its command line, work and meters. It lives outside of this repository."""
    folder = os.environ.get(FOLDER)
    if not folder:
        raise SystemExit(f"{FOLDER} must name the folder of the peers' harness: common.py and its *_peer.py.")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module("common")


class Carried(BaseModel):
    """As the harness makes, folds and checks it."""

    case: int
    blob: str
    log: list[Any] = []
    t0: float | None = None
    t1: float | None = None


def workflow(arguments: Namespace, common: Any) -> Workflow:
    """As many steps as the command line says; `--carry value` returns the changes only, else the whole state."""
    made = Workflow("peer", state=Carried)
    for number in range(arguments.steps):
        _step(made, number, arguments, common)
    return made


def _step(made: Workflow, number: int, arguments: Namespace, common: Any) -> None:
    @made.step(name=f"n{number}")
    def step(state: Carried, _call: Call) -> Carried | dict[str, Any]:
        out = common.work(arguments, state.case, number)
        if arguments.carry == "state":
            return Carried.model_construct(**common.fold(state.model_dump(), out))
        return {"log": [*state.log, out["v"]], "t0": state.t0 or out["t"], "t1": out["t"]}


if ARGUMENTS in os.environ:
    peer = workflow(Namespace(**json.loads(os.environ[ARGUMENTS])), harness())
