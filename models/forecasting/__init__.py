"""Forecasters of a job's workload behind one small contract."""
