"""``perdix replay``: policies on one workload against a twin, side by side, of jobs, of operators or of hosts.

Belongs here: options, what is run, and how it is told in a terminal, a kind each. Does not belong here: replaying
(:mod:`perdix.replay`).
"""
