"""A value of the hot path: frozen to the type checker, an ordinary dataclass at run time.

A frozen dataclass sets each field by a call, which takes three times as long; a step makes a dozen of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """Make the class one. Nobody changes it afterwards: `dataclasses.replace` makes another."""
    return dataclass(kw_only=True, unsafe_hash=True)(cls)
