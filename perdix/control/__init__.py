"""One tick = observe, forecast, decide, act, learn; its state; and the replay that runs ticks against the twin.

Belongs here: the loop, the state store, leases, the champions' cache. Does not belong here: Dagster, Spark, training.
"""
