"""What perdix would save on the jobs of a Prometheus, before anything is set up.

Belongs here: finding jobs by their engines' own metrics, reading their past, replaying each job's own load on its own
learned capacity, and reporting the result. Does not belong here: how anything is learned (``models``) or replayed
(``replay``), and the command line (``perdix.cli.scan``).
"""
