"""The protocol as small explicit-state models, searched breadth first.

| file | what it explores |
| --- | --- |
| `search.py` | the search: the shortest trace to whatever is wrong, and states that can't end well any more |
| `step.py` | one case's steps: claim, call, commit, publish, the late claim; `step_sweep.py`: the sweep, the faults |
| `doubt.py` | the policies retry, hold and verify, with calls that outlive their attempts; with `doubt_world.py` |
| `steering.py` | operators against an attempt that runs or is late; runs, pauses, what was seen |
| `signals.py` | waits, decisions, votes and messages, statement by statement, each with a snapshot of its own |
| `deadline.py` | a wait's deadline against its signal |
| `crashes.py` | which deaths are the step's own fault |
| `deploy.py` | two versions of the code at once |
| `newer.py` | the same, and what a case is told meanwhile: left to the code that can judge it |
| `join.py` | children that end at once, a list that is worked off by a cursor, failures and rewinds |
| `looks.py` | who looks at the parent when many children end at once |
| `values.py` | values that are stored apart, and checkpoints that are folded while others name them |

Each model has a table `RULES`: the name of a rule of the protocol, and what goes wrong without it. The tests take each
rule away and want to see exactly that: so no rule stays in the table that nothing needs, and no model stays that has
become blind. `STANDS_FOR` ties each action of a model to the code that does it, and `test_coverage.py` looks whether it
is there, and whether the table of legal moves agrees.

Not modelled: recorded calls (`call.once`), transactional steps, hooks, priorities, and numbers of seconds: here all
takes as long as it likes. Whoever changes the protocol changes the model first.
"""
