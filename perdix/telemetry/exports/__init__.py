"""Exports of a Prometheus, in the forms in which users have them, read without Spark.

Belongs here: one module per format, the content they are read from (plain or gzip, bounded), the choice of the format,
and the naming of what was read. Does not belong here: Spark, the lake, alignment.

Every sample of a file ends up in one of three places: kept, masked (its value is no number that could be used: NaN, an
infinity, a staleness marker), or quarantined with file, place and reason. Order, duplicates and counter resets are
kept as they came: alignment deals with them, because only there the clock and the neighbours are known.
"""
