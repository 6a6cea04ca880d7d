"""What must hold for every case, whatever was killed."""

from __future__ import annotations

from collections import Counter

from keepstep import Client
from keepstep.steps.keys import idempotency_key
from tests.support.trace import Trace

TEN = [f"s{i}" for i in range(1, 11)]


def kept(
    client: Client, trace: Trace, thread_id: str, *, workflow: str = "ten", twice: set[str] | None = None
) -> Counter[str]:
    """Assert that a finished case of these ten steps kept P1 and P2; how often each step's code ran.

    One checkpoint a step, in order; every step's result in the state once; a step's code ran again only if it is in
    `twice`, and under the same key.
    """
    case = client.get(workflow, thread_id)
    assert case.status == "completed", case
    assert case.state["log"] == TEN, "a step was lost, or its effect doubled"
    written = [e for e in client.history(workflow, thread_id) if e.kind in ("start", "step")]
    assert [e.seq for e in written] == list(range(11))
    assert [e.step for e in written] == ["start", *TEN]
    runs = Counter(line.step for line in trace.lines(thread_id))
    again = {step for step, n in runs.items() if n > 1}
    assert again <= (twice or set()), f"ran again without need: {again}"
    for line in trace.lines(thread_id):
        assert line.key == str(idempotency_key(case.run, TEN.index(line.step), line.step))
    return runs
