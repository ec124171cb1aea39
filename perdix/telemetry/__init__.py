"""What is measured: canonical metrics, series, windows, and the ways to read them.

Belongs here: names and units, export readers, the Prometheus client, alignment, quality rules, the lake of Parquet
tables. Does not belong here: anything learned (``models``), anything decided (``policies``), Dagster.
"""
