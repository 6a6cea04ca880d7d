"""`keepstep doctor`: a look at all that keepstep stands on, each finding with what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from keepstep.monitor.doctor.broker import look_at_broker
from keepstep.monitor.doctor.cases import look_at_cases
from keepstep.monitor.doctor.database import look_at_connections, look_at_database
from keepstep.monitor.doctor.finding import Finding, Level, Patient
from keepstep.monitor.doctor.workers import look_at_queues, look_at_workers
from keepstep.steps.errors import KeepstepError

LOOKS: tuple[Callable[[Patient], Iterator[Finding]], ...] = (
    look_at_database,
    look_at_broker,
    look_at_workers,
    look_at_queues,
    look_at_cases,
    look_at_connections,
)


def examine(patient: Patient) -> Iterator[Finding]:
    """All findings, in the order in which they should be mended. What can't be looked at is a finding too."""
    for look in LOOKS:
        if patient.database_away and look is not look_at_broker:
            continue
        try:
            yield from look(patient)
        except KeepstepError as error:
            patient.database_away = patient.database_away or look is look_at_database
            yield Finding(level=Level.BAD, what=str(error), do="Mend this first; then ask again.")


__all__ = ["Finding", "Level", "Patient", "examine"]
