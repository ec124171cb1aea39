"""Policies that size each operator of a dataflow: a situation in, a parallelism per operator out, and why.

Belongs here: rules that look at operators. Does not belong here: what is learned of operators
(:mod:`perdix.models.dataflow`), and rules that size a job as a whole (:mod:`perdix.policies`).
"""
