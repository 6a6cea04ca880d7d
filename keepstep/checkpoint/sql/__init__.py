"""Every SQL statement of keepstep, each a named constant with its purpose. No statement lives elsewhere.

hot      claim and commit: the two statements of a step, and the slower ways for an attempt to end
births   start a case
signals  lock, match, consume, expire
branches fan out, make cases, join, cancel what is left
sweep    wake, ring again, recover, prune
steering cancel, pause, retry, skip, rewind, restart, fork: an operator's verbs, with their audit
nodes    register, beat, judge
hooks    due, done, failed
reads    get, list, history: for people
fan_reads the same of fan-outs
schema   the revision
"""
