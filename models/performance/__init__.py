"""Which rate one worker reaches with the cores and memory that it is given (QEScalor, 2.3: OPRPM)."""
