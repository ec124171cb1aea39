"""How fast ``perdix scan`` is, and how near its sizes come to the best fixed ones of jobs that nobody tuned to."""
