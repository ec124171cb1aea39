"""``perdix ds2``: options, what is read, and how the answer looks."""
