"""How long a job needs until it has caught up after a stop: predicted, and observed."""
