"""Every setting, its variable, unit and default. The only reader, and writer, of the environment."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from keepstep.steps.errors import BadSetting


class Settings(BaseSettings):
    """Read from `KEEPSTEP_...` variables; every field may also be given by name."""

    model_config = SettingsConfigDict(env_prefix="KEEPSTEP_", extra="ignore", frozen=True)

    database_url: str = "postgresql://postgres@127.0.0.1:5432/keepstep"
    """Where the cases live. `postgres://` and `postgresql://` are taken as psycopg2's."""
    heartbeat_url: str | None = None
    """A direct URL for the node's heartbeat, when database_url goes through PgBouncer in transaction mode."""
    broker_url: str = "redis://127.0.0.1:6379/0"
    workflows: Annotated[tuple[str, ...], NoDecode] = ()
    """Modules that define workflows, separated by commas."""

    code_version: str = Field(default="", max_length=100)
    """What a deploy calls its code, such as an image's tag or a commit: shown beside what a worker has written."""
    lease_seconds: float = Field(default=10.0, gt=0, le=3600)
    """A node whose beat has not changed for this long is taken for dead."""
    beat_seconds: float = Field(default=1.0, gt=0)
    """How often a node says that it is alive."""
    ring_batch: int = Field(default=500, ge=1)
    """Cases that one round of the sweep moves, at the most, of each kind."""
    max_crashes: int = Field(default=3, ge=1)
    """A step whose process died this often is held as poison."""
    shutdown_seconds: float = Field(default=20.0, ge=0)
    """How long a step in flight may go on after SIGTERM, before its case goes to another worker."""
    settling_seconds: float = Field(default=5.0, ge=0)
    """How long an outside system gets before a step's `verify` asks it about a call in doubt."""
    max_node_deaths: int = Field(default=100, ge=1)
    """A deploy is no fault of the step: a high limit."""
    unknown_step_grace_seconds: float = Field(default=60.0, ge=0)
    """How long a case waits for a worker that knows its step before it is held."""
    max_state_bytes: int = Field(default=4 * 1024 * 1024, ge=1024)
    large_value_bytes: int = Field(default=64 * 1024, ge=1024)
    """A value of so many bytes in a step's state is stored once for its case, and checkpoints name its digest."""
    publish_timeout_seconds: float = Field(default=0.5, gt=0)
    """The longest that ringing may keep a caller when Redis doesn't answer."""
    show_thread_ids: bool = True
    """Whether the thread id appears in Celery's argsrepr, hence in Flower."""
    lean: bool = True
    """Whether messages take the short ways around Celery's machinery; otherwise all of it is stock."""
    inline_seconds: float = Field(default=0.0, ge=0, le=60)
    """For how long a worker goes on with a case's next steps itself, where the workflow doesn't say so (`inline=`)."""
    batch: int = Field(default=32, ge=1, le=500)
    """How many steps that are known to be quick a pool's process takes together, at the most; 1: each by itself."""
    prepared_statements: bool = True
    """Whether the hot statements are prepared. Behind PgBouncer in transaction mode, set it to false."""
    events: bool = True
    """Whether workers send task events, which Flower needs."""
    host_id: str | None = None
    """Overrides the host's identity (boot id and pid namespace). Two nodes of one identity judge each other by pid."""
    log_level: str = "INFO"
    log_format: Literal["text", "json"] = "text"
    """How workers log: lines for people, or one JSON object a line."""

    @field_validator("workflows", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(name.strip() for name in value.split(",") if name.strip())
        return value

    @field_validator("database_url", "heartbeat_url")
    @classmethod
    def _normalise(cls, value: str | None) -> str | None:
        return None if value is None else postgres_url(value)

    @field_validator("broker_url")
    @classmethod
    def _broker(cls, value: str) -> str:
        scheme, _, rest = value.strip().partition("://")
        if scheme.lower() not in _BROKERS or not rest:
            # what isn't understood isn't shown either: there may be a password in it
            raise ValueError("it is not a Redis URL such as redis://:password@host:6379/0")
        url = f"{_BROKERS[scheme.lower()]}://{rest}"
        if url.startswith(("redis://", "rediss://")) and ";" not in rest:  # not a list of hosts
            _check_parts(url)
        return ";".join(_verified(one) for one in url.split(";"))

    @field_validator("log_level")
    @classmethod
    def _level(cls, value: str) -> str:
        if value.upper() not in logging.getLevelNamesMapping():
            raise ValueError(f"{value!r} is none of {', '.join(logging.getLevelNamesMapping())}")
        return value.upper()

    @model_validator(mode="after")
    def _lease_outlasts_beats(self) -> Self:
        if self.lease_seconds < 2 * self.beat_seconds:
            raise ValueError(
                f"KEEPSTEP_LEASE_SECONDS ({self.lease_seconds:g}) must be at least twice KEEPSTEP_BEAT_SECONDS "
                f"({self.beat_seconds:g}): a node that beats in time would be taken for dead"
            )
        return self


def _verified(broker_url: str) -> str:
    """A TLS URL that says how certificates are checked: without that, kombu's Redis transport goes unencrypted."""
    if not broker_url.startswith("rediss://") or "ssl_cert_reqs=" in broker_url:
        return broker_url
    return f"{broker_url}{'&' if '?' in broker_url else '?'}ssl_cert_reqs=required"


_BROKERS = {
    "redis": "redis",
    "rediss": "rediss",
    "redis+socket": "redis+socket",
    "sentinel": "sentinel",
    "valkey": "redis",
    "valkeys": "rediss",
}
"""The schemes taken, and what kombu calls them."""


def postgres_url(url: str) -> str:
    """The URL with psycopg2 as the driver: SQLAlchemy 2.1 would take another one for a plain `postgresql://`."""
    scheme, _, rest = url.strip().partition("://")
    dialect, _, driver = scheme.lower().partition("+")
    if dialect in ("postgres", "postgresql") and driver in ("", "psycopg2", "psycopg") and rest:
        from sqlalchemy.engine import make_url  # takes a while to import, which `keepstep --help` needn't pay
        from sqlalchemy.exc import ArgumentError

        normal = f"postgresql+psycopg2://{rest}"
        _check_parts(normal)
        try:
            make_url(normal)
        except (ArgumentError, ValueError):
            raise ValueError(_UNREADABLE) from None
        return normal
    # what isn't understood isn't shown either: there may be a password in it
    raise ValueError("it is not a PostgreSQL URL such as postgresql://user:password@host:5432/name")


def _check_parts(url: str) -> None:
    """Refuse a URL whose port is no number, or whose host can't be told from its password."""
    try:
        _ = urlsplit(url).port
    except ValueError:
        raise ValueError(_UNREADABLE) from None  # the parser's own words may hold the password


_UNREADABLE = (
    "its host and port can't be told. The port must be a number up to 65535, and the characters /, ?, #, :, @ and % "
    "in a user name or password must be written as %2F, %3F, %23, %3A, %40 and %25"
)


def without_password(url: str) -> str:
    """The URL as it may be shown: without its password, and without SQLAlchemy's name for the driver."""
    parts = urlsplit(url.replace("postgresql+psycopg2://", "postgresql://", 1))
    parts = parts._replace(query=re.sub(r"(?i)(password=)[^&]*", r"\1***", parts.query))
    if parts.password is None:
        return urlunsplit(parts)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:***@{host}"))


def read_settings(**overrides: object) -> Settings:
    """The settings from the environment, with overrides; BadSetting names the variable that is wrong."""
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        return Settings(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        reason = first["msg"].removeprefix("Value error, ")
        raise BadSetting(f"KEEPSTEP_{name.upper()}: {reason}" if first["loc"] else reason) from None


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The settings of this process, read once."""
    return read_settings()


def export_settings(**overrides: str | None) -> None:
    """Put settings into the environment, for this process and its children; before anything has read them."""
    os.environ.update(_variables(overrides))
    settings.cache_clear()


def child_environment(**overrides: str | None) -> dict[str, str]:
    """The environment for a process that we start: ours, with these `KEEPSTEP_...` variables set."""
    return {**os.environ, **_variables(overrides)}


def _variables(overrides: Mapping[str, str | None]) -> dict[str, str]:
    return {f"KEEPSTEP_{name.upper()}": value for name, value in overrides.items() if value is not None}


def failpoints() -> str | None:
    """The folder in which a test names write points at which it wants this process killed; None in production."""
    return os.environ.get("KEEPSTEP_FAILPOINTS")


def of_tests(variable: str) -> str | None:
    """A variable that only tests use: where their servers are, which of several test processes this is."""
    return os.environ.get(variable)
