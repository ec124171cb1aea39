"""What the partitions of a source make of scale-outs: a worker reads whole ones, so capacities rise in steps."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from perdix.models.capacity.evidence import Evidence
from perdix.models.capacity.hottest import highest_of
from perdix.telemetry.window import Values

Ints = NDArray[np.int_]

ALIKE = 0.05  # relative difference up to which the hottest worker's share is that of the partitions that it reads
STEP = 0.9  # evenness above which reading costs too little for that to be distinguished from keys
OF_KEYS = 0.5  # of what partitions make uneven, what keys would if these were read evenly
MOST_OF_KEYS = 0.2
READERS_SD = 0.08  # relative sd of what workers take: the slowest that reads most partitions decides


def read_shares(partitions: int, scale_outs: int | Ints) -> Values:
    """Return the share of the records that the worker with most partitions reads, all partitions being alike."""
    return np.asarray(np.ceil(partitions / scale_outs) / partitions)


def evenness(partitions: int, scale_outs: int | Ints) -> Values:
    """Return what workers take as a share of what they would if each read equally much, for reading alone."""
    return np.asarray(1.0 / (scale_outs * read_shares(partitions, scale_outs)))


def slowest_reader(partitions: int, scale_outs: int | Ints) -> Values:
    """Return the log of what the slowest of those takes that read most partitions, over what the mean worker does."""
    more = partitions % scale_outs
    readers = np.where(more > 0, more, np.minimum(scale_outs, partitions))
    return np.asarray(-READERS_SD * highest_of(readers))


def read_unevenly(evidence: Evidence, partitions: int) -> bool:
    """Whether the hottest worker has just the share that some worker reads of partitions that do not go round.

    Then these hold up the job, and not its keys.
    """
    if evidence.hottest_share is None or evenness(partitions, evidence.scale_out) > STEP:
        return False
    return abs(evidence.hottest_share / float(read_shares(partitions, evidence.scale_out)) - 1.0) < ALIKE


def if_read_evenly(evidence: Evidence, partitions: int) -> Evidence:
    """Return what a scale-out would have taken if each worker read equally much; as it is where keys hold it up.

    Then keys would, of which no more is known than that they are less uneven.
    """
    if not read_unevenly(evidence, partitions):
        return evidence
    even = float(evenness(partitions, evidence.scale_out))
    by_keys = min(OF_KEYS * (1.0 / even - 1.0), MOST_OF_KEYS)
    return replace(
        evidence,
        per_s=evidence.per_s / even / (1.0 + by_keys),
        relative_sd=float(np.hypot(evidence.relative_sd, 0.5 * by_keys)),
        hottest_share=(1.0 + by_keys) / evidence.scale_out,
    )
