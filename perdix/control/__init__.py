"""One tick = observe, forecast, decide, act, learn; and its state.

Belongs here: the loop, the state store, leases, the champions' cache. Does not belong here: Dagster, Spark, training.
"""
