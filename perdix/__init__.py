"""Forecast-driven autoscaling for stream processing: the one name under which everything of it is imported.

Belongs here: the rooms, each a package of its own. ``models``, ``assets``, ``pipelines`` and ``conf`` are folders at
the top of the repository, and links here. Does not belong here: code, because whoever imports a room imports this
first.
"""
