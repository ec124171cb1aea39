"""The state store: decisions, what was learned, ticks, leases and pauses, behind one SQLAlchemy URL."""
