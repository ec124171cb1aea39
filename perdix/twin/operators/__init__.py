"""The twin of one operator instance that is given cores and memory: what is sampled (QEScalor, 2.2)."""
