"""Mixes of worker sizes over a forecast horizon at least cost (QEScalor, 2.4: QCESA, and CBA as its baseline).

Belongs here: the cost model, which mixes need be examined, the exact programme and the good one. Does not belong here:
forecasts, jobs, decisions. Pure: arrays in, arrays out.
"""
