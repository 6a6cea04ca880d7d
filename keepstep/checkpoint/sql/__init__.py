"""Every SQL statement of keepstep, each a named constant with its purpose. No statement lives elsewhere.

hot      claim and commit: the two statements of a step, and the slower ways for an attempt to end
births   start a case
signals  lock, match, consume, expire
sweep    wake, ring again, recover, prune
steering cancel, pause, retry, skip, rewind, restart, fork: an operator's verbs, with their audit
nodes    register, beat, judge
hooks    due, done, failed
reads    get, list, history: for people
schema   the revision
"""
