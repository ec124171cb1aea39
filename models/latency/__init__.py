"""Which latency a scale-out gives at a rate, and whether that is normal (Phoebe, 3.4: M_L)."""
