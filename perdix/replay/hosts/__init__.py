"""Replays of policies that lease hosts and place containers on them."""
