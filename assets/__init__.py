"""Dagster assets: ingest, validate, observe, train, backtest, register, compare.

Belongs here: the asset bodies, their checks and resources; heavy libraries are imported inside them. Does not belong
here: sensors, schedules, jobs (``pipelines``), algorithms (``models``, ``telemetry``).
"""
