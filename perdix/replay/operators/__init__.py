"""Replays of policies that size the operators of a dataflow."""
