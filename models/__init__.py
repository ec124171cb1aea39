"""What is learned from telemetry: forecasts, capacity, recovery, drift, and the registry that versions it.

Belongs here: estimators over NumPy arrays and pandas frames, their states, their errors. Does not belong here: Spark,
Dagster, decisions. MLflow is spoken in :mod:`perdix.models.registry` only.
"""
