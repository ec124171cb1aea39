"""Which sizes of worker to sample next (QEScalor, 2.2: DSA, and FSSA as its baseline). Pure: nothing is run here."""
