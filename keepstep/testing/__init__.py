"""What users import to test their workflows: against a real database, with time skipped; and under real crashes."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.testing.clock import Clock
    from keepstep.testing.crash.everywhere import crash_everywhere
    from keepstep.testing.crash.report import NotCrashSafe, Report
    from keepstep.testing.fake import fake_call
    from keepstep.testing.prepared import NotATestDatabase
    from keepstep.testing.replacement import replaced
    from keepstep.testing.runner import NotReached, Runner
    from keepstep.testing.witness import StepError

_HOMES = {
    "Clock": "clock",
    "NotATestDatabase": "prepared",
    "NotCrashSafe": "crash.report",
    "NotReached": "runner",
    "Report": "crash.report",
    "Runner": "runner",
    "StepError": "witness",
    "crash_everywhere": "crash.everywhere",
    "fake_call": "fake",
    "replaced": "replacement",
}


def __getattr__(name: str) -> object:
    """Import a part when it is first asked for: the plugin is loaded by every pytest, and must cost it nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


__all__ = [
    "Clock",
    "NotATestDatabase",
    "NotCrashSafe",
    "NotReached",
    "Report",
    "Runner",
    "StepError",
    "crash_everywhere",
    "fake_call",
    "replaced",
]
