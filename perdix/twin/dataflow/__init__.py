"""The twin of a dataflow: operators, what flows between them, and back-pressure through bounded buffers.

Belongs here: what operators truly do, and what instrumentation shows of it. Does not belong here: what is learned of
operators (:mod:`perdix.models.dataflow`), rules that size them (:mod:`perdix.policies.dataflow`), and the twin of a job
as a whole.
"""
