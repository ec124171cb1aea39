"""Flink as a target: jobs and dataflows, through its REST API."""
