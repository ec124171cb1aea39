"""Measuring a job before a policy needs to know: profiling, and sampling.

Profiling replays recorded load at rising rates on parallel deployments (Phoebe, 3.3). Sampling gives one instance of
another size a rising share of the live workload (QEScalor, 2.2).

Belongs here: which deployments and instances run when, what is measured of them, and what that costs. Does not belong
here: what is concluded from it (:mod:`perdix.models.profiling`, :mod:`perdix.models.latency`,
:mod:`perdix.models.sampling`, :mod:`perdix.models.performance`), and Dagster.
"""
