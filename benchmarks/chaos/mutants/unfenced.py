"""No fence: whoever comes late with a result writes it, whatever has become of the case."""

from __future__ import annotations

from sqlalchemy import text

from benchmarks.chaos.workflow import chaos, errands
from keepstep.checkpoint.sql import hot

assert hot.FENCE in hot.COMMIT.text, "the fence has moved: this mutant breaks nothing any more"
hot.COMMIT = text(hot.COMMIT.text.replace(hot.FENCE, "id = :id"))

__all__ = ["chaos", "errands"]
