"""The fewest worker-seconds of any plan at each share of late seconds, given the trace and all physics that is no luck.

Belongs here: what a plan knows (``known``), what a stage does (``stages``), the cheapest plan at a price of a late
second (``programme``), the curve (``curve``).
"""

FRONTIER = "frontier"  # what its plans are called beside policies
