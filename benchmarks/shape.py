"""A shape: a named way to run keepstep, `name[:word=value,...]`, so that several can be measured in one run.

Words in capitals are variables of the environment (`quiet:KEEPSTEP_EVENTS=false`); `pool`, `workers` and `concurrency`
are how the workers are started; `checkout` is another copy of this repository, measured beside this one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """env: for the client and the workers. options: of the workers; where one is missing, the measurement chooses."""

    name: str
    env: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    checkout: Path = ROOT

    @classmethod
    def of(cls, text: str, env: Iterable[str] = ()) -> Shape:
        """Read it from the command line. env: settings that hold for all shapes. click.BadParameter if it is none."""
        name, _, rest = text.partition(":")
        made = cls(name=name, env=dict(_pair(setting) for setting in env))
        checkout = ROOT
        for word in filter(None, rest.split(",")):
            key, value = _pair(word)
            if key.isupper():
                made.env[key] = value
            elif key in ("pool", "workers", "concurrency"):
                made.options[key] = value
            elif key == "checkout":
                checkout = Path(value).resolve()
            else:
                raise click.BadParameter(f"{word!r}: pool, workers, concurrency, checkout, or a variable in capitals.")
        return cls(name=name, env=made.env, options=made.options, checkout=checkout)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE.")
    return key, value
