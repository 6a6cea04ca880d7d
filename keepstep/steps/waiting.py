"""What a step may wait for: one signal, any or all of several, the next message of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from keepstep.steps.outcome import Outcome, Update, seconds_of
from keepstep.steps.sameness import same

UNSET: Any = object()
"""Stands for a default that wasn't given: None is a payload like any other."""

MOST_APPROVERS = 1000

WAIT_EXPIRED = "WaitExpired"
"""The type of the error that a case failed with because nobody answered in time."""


@dataclass(frozen=True, kw_only=True)
class WaitFor(Outcome):
    """Wait for a signal; its payload becomes the field `into`, and the case goes on with `then`."""

    name: str
    into: str | None = None
    then: str | None = None
    payload: type[BaseModel] | None = None
    choices: Sequence[Any] | None = None
    prompt: Any = None
    timeout: float | None = None
    on_timeout: str | None = None
    default: Any = UNSET
    remind_every: float | None = None
    approvers: int = 1
    stream: bool = False


@dataclass(frozen=True, kw_only=True)
class WaitTogether(Outcome):
    """Wait for any of several signals, or for all of them in whichever order."""

    waits: tuple[WaitFor, ...]
    need_all: bool


def wait_for(
    name: str,
    /,
    *,
    into: str | None = None,
    then: str | None = None,
    payload: type[BaseModel] | None = None,
    choices: Sequence[Any] | None = None,
    prompt: Any = None,
    timeout: timedelta | float | None = None,
    on_timeout: str | None = None,
    default: Any = UNSET,
    remind_every: timedelta | float | None = None,
    approvers: int = 1,
    update: Update | None = None,
) -> WaitFor:
    """Wait for the signal `name`, holding no process, connection or message meanwhile.

    into: the field of the state that takes the payload. then: the step to go on with (default: the next one).
    payload: the pydantic model that a payload must fit, or choices: the values it may be; checked when the signal is
    sent. prompt: JSON for the person who decides. timeout: a timedelta or seconds, default none; when time is up the
    case goes on with the step `on_timeout`, or as if `default` had been sent, or else it fails. remind_every: a
    timedelta or seconds, after each of which the workflow's hooks for "remind" are called. approvers: how many
    different actors must say the same before the case goes on, `actor` and `note` aside; one refusal (`approved` is
    false) is enough.
    """
    seconds = _timeout(f"wait_for({name!r})", timeout, follows=on_timeout is not None or default is not UNSET)
    if on_timeout is not None and default is not UNSET:
        raise ValueError(f"wait_for({name!r}): either on_timeout= or default= follows the timeout")
    if payload is not None and choices is not None:
        raise ValueError(f"wait_for({name!r}): a payload is described by payload= or by choices=")
    if choices is not None and default is not UNSET and not any(same(default, choice) for choice in choices):
        raise ValueError(f"wait_for({name!r}): its default={default!r} is none of its choices={list(choices)}")
    reminding = None if remind_every is None else seconds_of(remind_every)
    if reminding is not None and reminding <= 0:
        raise ValueError(f"wait_for({name!r}, remind_every={remind_every!r}): give a duration above zero")
    if type(approvers) is not int or not 1 <= approvers <= MOST_APPROVERS:
        raise ValueError(f"wait_for({name!r}, approvers={approvers!r}): a whole number from 1 to {MOST_APPROVERS:,}")
    return WaitFor(
        name=name,
        into=into,
        then=then,
        payload=payload,
        choices=choices,
        prompt=prompt,
        timeout=seconds,
        on_timeout=on_timeout,
        default=default,
        remind_every=reminding,
        approvers=approvers,
        update=update or {},
    )


def receive(
    name: str,
    /,
    *,
    into: str | None = None,
    then: str | None = None,
    payload: type[BaseModel] | None = None,
    timeout: timedelta | float | None = None,
    on_timeout: str | None = None,
    update: Update | None = None,
) -> WaitFor:
    """Take the next message of the stream `name` (sent with `cases.send`), first in, first out."""
    seconds = _timeout(f"receive({name!r})", timeout, follows=on_timeout is not None)
    return WaitFor(
        name=name,
        into=into,
        then=then,
        payload=payload,
        timeout=seconds,
        on_timeout=on_timeout,
        stream=True,
        update=update or {},
    )


def wait_any(*waits: WaitFor, update: Update | None = None) -> WaitTogether:
    """Wait for several signals; the first one decides, each with a `then` of its own, and the others are dropped."""
    return _together(waits, need_all=False, update=update)


def wait_all(*waits: WaitFor, update: Update | None = None) -> WaitTogether:
    """Wait for several signals, in whichever order they come; the last one lets the case go on, with its `then`."""
    return _together(waits, need_all=True, update=update)


def _timeout(at: str, timeout: timedelta | float | None, *, follows: bool) -> float | None:
    """Seconds; ValueError if something `follows` a timeout that there isn't."""
    if timeout is None and follows:
        raise ValueError(f"{at} says what follows its timeout, but has no timeout; the wait is for ever")
    return None if timeout is None else seconds_of(timeout)


def _together(waits: tuple[WaitFor, ...], *, need_all: bool, update: Update | None) -> WaitTogether:
    names = [wait.name for wait in waits]
    if not waits or len(set(names)) < len(names):
        raise ValueError(f"waiting together takes one or more waits of different names, not {names}")
    if any(wait.update for wait in waits):
        raise ValueError("waiting together: give update= once, to the whole")
    return WaitTogether(waits=waits, need_all=need_all, update=update or {})
