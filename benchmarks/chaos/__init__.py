"""A thousand cases under random faults, and the question whether every promise was kept. `python -m benchmarks.chaos`.

| file | noun |
| --- | --- |
| `plan.py` | what strikes when, and which case starts when: all of it from one seed |
| `workflow.py` | 42 steps of every kind, fan-outs and children among them |
| `outside.py` | the outside world, which makes an effect on each call, and forgets none |
| `stage.py` | servers, proxy, workers and a client of the run's own |
| `fleet.py`, `proxy.py` | workers and connections, and what is done to them |
| `lanes.py` | carry the plan out |
| `backend.py`, `operator.py` | the people: who starts and signals, who answers and moves what is held |
| `patience.py` | how backend code bears it that the database is away |
| `evidence.py` | all that is known of each case when it is over |
| `verdict.py`, `standstill.py` | what of it breaks a promise; how long cases stood still. Pure |
| `report.py` | the table, and the cases that break a promise |
| `mutants/` | the engine broken on purpose: a run with one of them must fail |
"""
