"""Readers of Prometheus exports: one module per format, all yielding series and quarantined rows."""
