"""A job's metrics looked over before anything rests on them: every query, what it found, and the fix of what is wrong.

Belongs here: what ``perdix doctor`` finds out about a job's Prometheus. It asks, aligns and judges as a tick does. Does
not belong here: other checks of a machine, and how findings are shown (``cli``).
"""
