"""Jobs that nobody tuned to, drawn from a seed, and what every policy comes to on them.

Belongs here: which workloads and jobs there are (:mod:`~benchmarks.zoo.workloads`, :mod:`~benchmarks.zoo.jobs`), how
they are played and counted. Does not belong here: any rule of a policy, and any choice made because of a result.
"""
