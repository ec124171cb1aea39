"""The digital twin: a second-level simulation of a stream job, with a Prometheus face.

Belongs here: workloads, the job's physics, metric emission, exports and the HTTP face. Does not belong here: policies,
Dagster, anything that decides.
"""
