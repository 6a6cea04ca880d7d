"""The workers: who lives, with which code, and does somebody read every queue?"""

from __future__ import annotations

from collections.abc import Iterator

from keepstep._version import __version__
from keepstep.checkpoint import nodes
from keepstep.checkpoint.queues import queues
from keepstep.monitor.doctor.finding import Finding, Patient, bad, ok, warn
from keepstep.steps.words import duration

SLOW = 30.0
"""Seconds for which a case may wait for a worker before somebody should know."""


def look_at_workers(patient: Patient) -> Iterator[Finding]:
    """Raises DatabaseUnavailable."""
    patient.nodes = nodes.everyone(patient.client.db)
    live = patient.live
    if not live:
        yield bad("no worker is alive", "Start one: keepstep --workflows MODULE worker")
    for node in live:
        known = ", ".join(f"{name} v{version}" for name, version in sorted(node.workflows.items())) or "no workflows"
        yield ok(
            f"worker {node.host}, pid {node.process.partition(':')[0]}: {', '.join(node.queues)}; {node.pool} "
            f"x{node.concurrency}; keepstep {node.version}; {known}"
        )
    for node in patient.nodes:
        if node not in live:
            yield warn(
                f"worker {node.host}, pid {node.process.partition(':')[0]}, is silent for {duration(node.silent)}",
                "If it was killed, another live worker recovers its cases and forgets it; start one.",
            )
    yield from _versions(patient)
    if live and not all(node.lock_works for node in live):
        yield warn(
            "some workers' heartbeats can't hold their lock, so deaths are noticed by silence alone",
            "They go through a pooler: set KEEPSTEP_HEARTBEAT_URL to a direct URL (docs/scaling.md).",
        )


def _versions(patient: Patient) -> Iterator[Finding]:
    releases = sorted({node.version for node in patient.live} | {__version__})
    if len(releases) > 1:
        yield warn(f"several releases of keepstep are in use: {', '.join(releases)}", "Usual in a deploy; finish it.")
    versions: dict[str, set[int]] = {}
    for node in patient.live:
        for name, version in node.workflows.items():
            versions.setdefault(name, set()).add(version)
    for name, found in sorted(versions.items()):
        if len(found) > 1:
            told = ", ".join(f"v{version}" for version in sorted(found))
            yield warn(
                f"workers have different code of {name}: {told}",
                "Usual in a deploy: cases of the newer version wait for workers that have it. Finish the deploy.",
            )


def look_at_queues(patient: Patient) -> Iterator[Finding]:
    """Raises DatabaseUnavailable."""
    read = {queue for node in patient.live for queue in node.queues}
    found = {one.name: one for one in queues(patient.client.db, patient.live, seconds=None)}
    for one in found.values():
        oldest = one.oldest or 0.0
        start = f"keepstep --workflows MODULE worker -Q {one.name}"
        waiting = f"{one.queued:,} {'case waits' if one.queued == 1 else 'cases wait'}"
        if one.queued and not one.workers:
            yield bad(f"{waiting} on the queue {one.name}, which no live worker reads", f"Start one: {start}")
        elif one.queued and oldest > SLOW:
            busy = one.running >= one.slots
            yield warn(
                f"on the queue {one.name}, {waiting} for a worker, the first for {duration(oldest)}; "
                f"{one.running} of {one.slots} slots are busy",
                "Start more workers for it, or raise their concurrency (docs/scaling.md)."
                if busy
                else "Look at the workers' logs: they have room, and don't take them. keepstep why tells of a case.",
            )
    unread = sorted({queue for code in patient.client.registry for queue in _of(code)} - read - set(found))
    if unread:
        yield warn(f"no live worker reads {', '.join(unread)}, which steps of the loaded workflows use", "Start one.")
    elif patient.live and not [one for one in found.values() if one.queued and not one.workers]:
        yield ok(f"every queue has workers: {', '.join(sorted(read))}")


def _of(code: object) -> set[str]:
    return {step.queue for step in getattr(code, "steps", {}).values()}
