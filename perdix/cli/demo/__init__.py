"""``perdix demo``: what it does, compares, and reports."""
