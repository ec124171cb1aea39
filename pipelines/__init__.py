"""Dagster definitions: jobs, schedules, sensors, and the two code locations.

Belongs here: assembly. Does not belong here: algorithms, asset bodies.
"""
