"""Spark: its session on a fresh machine, what a cluster must do, and exports as a source of rows."""
