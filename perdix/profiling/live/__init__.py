"""Profiling and sampling of a running job.

Belongs here: a load that a command makes, and the adapters of the two contracts (:mod:`perdix.profiling.deployment`,
:mod:`perdix.profiling.sampling_instance`). Does not belong here: which scale-outs, rates and sizes are tried.
"""
