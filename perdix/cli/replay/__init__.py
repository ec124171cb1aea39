"""``perdix replay``: policies on one workload against a twin, side by side, of jobs, of operators or of hosts.

Belongs here: for each kind its options, what is run, and how it looks in a terminal. Does not belong here: replaying
(:mod:`perdix.replay`).
"""
