"""Profiling a stream job: recorded load, replayed at rising rates on parallel deployments (Phoebe, 3.3).

Belongs here: which deployments run when, what is measured of them, and what that costs. Does not belong here: what is
concluded from a profile (:mod:`models.profiling`, :mod:`models.latency`), and Dagster.
"""
