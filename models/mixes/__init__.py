"""Mixes of worker sizes over a forecast horizon at least cost (QEScalor, 2.4: QCESA, and CBA as its baseline)."""
