"""Dagster assets: ingest, validate, observe, train, backtest, register, compare.

Belongs here: the asset bodies and their checks; heavy libraries are imported inside them. Does not belong here:
sensors, schedules, resources (``pipelines``), algorithms (``models``, ``telemetry``).
"""
