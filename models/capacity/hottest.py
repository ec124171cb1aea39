"""What a job can take, from the worker that will be full first, while nobody knows how much CPU it uses idle.

Each worker's CPU load is ``idle + per_record * throughput + noise``. The idle share is common to the workers of a job,
the CPU per record differs between them as the hosts do. Both are worked out together, by Bayes' rule on a grid: a
worker that is nearly idle shows hardly anything of its capacity, and then the answer says so.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from perdix.models.capacity.contract import REACH_SDS
from perdix.models.capacity.line import BEND_ERROR, BETWEEN_SD, MODEL_ERROR, IdleShare, reach_of
from perdix.telemetry.window import Values

Ints = NDArray[np.intp]

STRANGERS = IdleShare(0.12, 0.10)  # before anything is known of a job: jobs idle at 2 to 30 % of their CPU
CPU_NOISE = 0.01  # sd of a minute's CPU load around the line, believed before residuals were seen
NOISE_WEIGHT = 2.0  # how many samples that belief is worth
RECORDS_SCATTER = 0.3  # of what scatters around a line, the share that may be throughput's: its slope is too flat then
SPEED_SD = 0.15  # relative sd of workers' CPU per record (measured: 17 %)
LEAST_BUSY = 0.003  # CPU load above idle that a job has at least while it is busy, whatever it does
IN_BURSTS = 1.5  # sds of the rate that a job has while it is busy, where it mostly has nothing to do
AROUND = np.linspace(-3.0, 3.0, 11)  # standard deviations at which what is believed is looked at
ORDERS = np.linspace(0.0, 1.0, 18)  # where a grid over orders of magnitude has its points, between the ends' logarithms
MEAN_OF_HIGHEST = 0.5264  # where the mean of the highest of n normal deviates lies in their distribution (Blom)
BEYOND = float(ndtr(-REACH_SDS))  # of a normal distribution, beyond either end of an interval
HOTTEST = 6  # workers that may turn out to be the hottest


@dataclass(frozen=True)
class Capacity:
    """Capacity in records/s, the standard deviation of its logarithm, and what was learnt of the idle share.

    ``cpu_reach``: the highest CPU load that the lines range up to.
    ``hottest_speed``: records per CPU of the worker that is full first, as a multiple of the mean worker's.
    """

    per_s: float
    log_sd: float
    idle: IdleShare
    cpu_reach: float
    hottest_speed: float = 1.0


def hottest_capacity(lines: Values, shares: Values, hottest_cpu: Values, idle: IdleShare) -> Capacity:
    """Return the throughput of the whole job at which its hottest worker is full.

    ``lines``: of the workers, each with samples in which it processed something: the statistics of a
    :class:`~perdix.models.capacity.line.Line` in its order, shape ``(6, workers)``.
    ``shares``: what each worker processes of the job's records, shape ``(workers,)``, above 0.
    ``hottest_cpu``: mean CPU load of whichever worker was hottest while this one had samples, shape ``(workers,)``.
    ``idle``: what is believed of the idle share before these lines.
    """
    weight, cpu, rate, _, rate_m2, _ = lines
    noise = _noise(lines)
    # CPU per record of each worker: by the samples' own slope, and by their mean above the idle share. Where the two
    # differ, the idle share is another.
    by_slope, slope_var = _slopes(lines, noise)
    mean_var = (noise / weight + BETWEEN_SD**2) / rate**2
    crossing = _agreed(idle, cpu - by_slope * rate, (mean_var + slope_var) * rate**2)
    idles = _idle_shares(crossing, cpu)
    own_var = 1.0 / (1.0 / mean_var + 1.0 / slope_var)
    own = own_var * ((cpu - idles[:, None]) / rate / mean_var + by_slope / slope_var)

    common, precision, scatter = _common(own, own_var)
    busy_rate = np.maximum(rate, IN_BURSTS * np.sqrt(rate_m2 / weight))
    commons = _per_record(common, precision, LEAST_BUSY / float(busy_rate.mean()))
    fit = -0.5 * ((idles - crossing.cpu) / crossing.sd) ** 2 - 0.5 * scatter
    # Before anything is seen, every order of magnitude of it is as likely as any other.
    fits = fit[:, None] - 0.5 * precision * (commons - common[:, None]) ** 2 - np.log(commons)
    likely = np.exp(fits - fits.max()) * _widths(commons) * _widths(idles)[:, None]
    likely /= likely.sum()

    few = np.argsort(-(cpu / rate) * shares)[:HOTTEST] if len(cpu) > HOTTEST else slice(None)
    load, uncertain, slower = _hottest(own[:, few], own_var[few], commons, shares[few])
    full = np.log1p(-idles)[:, None] - np.log(load) + math.log(shares.sum())
    full -= np.log1p(_taking_turns(hottest_cpu, cpu, noise, idles))[:, None]
    mean = float((likely * full).sum())
    variance = max(float((likely * (full - mean) ** 2).sum()), _reaching_sd(full, likely, mean) ** 2)
    variance += float((likely * np.minimum(uncertain, SPEED_SD**2)).sum())
    reach = float(reach_of(lines).max())
    model = MODEL_ERROR + BEND_ERROR * max(0.0, 1.0 - reach) ** 2
    speed = math.exp(-float((likely * slower).sum()))
    return Capacity(math.exp(mean), math.sqrt(variance + model**2), _learnt(idles, likely * commons), reach, speed)


def _reaching_sd(values: Values, likely: Values, mean: float) -> float:
    """Return the standard deviation whose interval holds what is likely at either end, however skewed that is.

    Beyond the farther end lies as much as of a normal distribution does.
    """
    order = values.argsort(axis=None)
    weights = likely.take(order)
    low, high = np.interp([BEYOND, 1.0 - BEYOND], weights.cumsum() - weights / 2.0, values.take(order)).tolist()
    return max(abs(low - mean), abs(high - mean)) / REACH_SDS


def highest_of(deviates: int | Ints) -> Values:
    """Return where the mean of the highest of this many standard normal deviates lies."""
    return np.asarray(ndtri(MEAN_OF_HIGHEST ** (1.0 / deviates)))


def _noise(lines: Values) -> Values:
    """Return the variance of each worker's CPU load around its line, shape ``(workers,)``."""
    weight, _, _, cpu_m2, rate_m2, both = lines
    explained = np.divide(both**2, rate_m2, out=np.zeros_like(both), where=rate_m2 > 0)
    residual = np.maximum(cpu_m2 - explained, 0.0) + NOISE_WEIGHT * CPU_NOISE**2
    return np.asarray(residual / (np.maximum(weight - 2.0, 0.0) + NOISE_WEIGHT))


def _slopes(lines: Values, noise: Values) -> tuple[Values, Values]:
    """Return each worker's slope of CPU load over throughput and its variance, infinite where nothing ranged."""
    _, cpu, _, cpu_m2, rate_m2, both = lines
    ranged = (rate_m2 > 0) & (both > 0)
    slope = np.divide(both, rate_m2, out=np.zeros_like(both), where=ranged)
    steepest = np.divide(cpu_m2, both, out=np.zeros_like(both), where=ranged)
    variance = np.divide(noise, rate_m2, out=np.full_like(noise, np.inf), where=ranged)
    variance += len(cpu) * (RECORDS_SCATTER * (steepest - slope)) ** 2  # all workers' slopes are off alike
    return slope, variance


def _agreed(idle: IdleShare, crossings: Values, variances: Values) -> IdleShare:
    """Return the idle share that was believed, with where the workers' lines cross zero throughput."""
    precise = 1.0 / idle.sd**2 + (1.0 / variances).sum()
    centre = (idle.cpu / idle.sd**2 + (crossings / variances).sum()) / precise
    return IdleShare(float(centre), float(precise**-0.5))


def _common(own: Values, own_var: Values) -> tuple[Values, Values, Values]:
    """Return the workers' common CPU per record at each idle share, its precision, and how far they scatter about it.

    Shapes ``(idle shares,)``, ``(idle shares, 1)`` and ``(idle shares,)``.
    """
    common = (own / own_var).sum(axis=1) / (1.0 / own_var).sum()
    for _ in range(2):  # how far workers differ is relative to what they have in common
        scattered = own_var + (SPEED_SD * np.maximum(common, 0.0)[:, None]) ** 2
        precision = (1.0 / scattered).sum(axis=1, keepdims=True)
        common = (own / scattered).sum(axis=1) / precision[:, 0]
    return common, precision, ((own - common[:, None]) ** 2 / scattered).sum(axis=1)


def _learnt(idles: Values, likely: Values) -> IdleShare:
    """Return what the samples say of the idle share, for another stay.

    That stay will say again what is likely of the CPU per record before anything is seen; here it is left out.
    """
    by_idle = likely.sum(axis=1) / likely.sum()
    centre = float(by_idle @ idles)
    return IdleShare(centre, max(math.sqrt(float(by_idle @ (idles - centre) ** 2)), BETWEEN_SD))


def _hottest(own: Values, own_var: Values, commons: Values, shares: Values) -> tuple[Values, Values, Values]:
    """Return the CPU load above idle of the hottest worker, per record/s of all workers' shares, and its variance.

    Also the logarithm of its CPU per record over the workers' common one.

    ``own``, ``own_var``: each worker's own CPU per record at each idle share, shape ``(idle shares, workers)``, and its
    variance.
    ``commons``: the workers' common CPU per record to try, shape ``(idle shares, points)``, as of what is returned; the
    variance is relative.
    """
    spread = (SPEED_SD * commons) ** 2
    trust = spread / (spread + own_var[:, None, None])
    per_record = commons + trust * (own.T[:, :, None] - commons)
    loads = np.maximum(per_record, commons * SPEED_SD) * shares[:, None, None]
    which, highest = loads.argmax(axis=0), loads.max(axis=0)
    at = which * which.size + np.arange(which.size).reshape(which.shape)
    uncertain = trust.take(at) * own_var[which] / per_record.take(at) ** 2
    return highest, uncertain, np.log(highest / shares[which] / commons)


def _taking_turns(hottest_cpu: Values, cpu: Values, noise: Values, idles: Values) -> Values:
    """Return by how much whichever worker is hottest is busier than the one that is hottest on average, ratio.

    Where keys come and go, now one worker is the first to be full and now another. What noise of the CPU load alone
    would make of it is taken off: it does not grow with the load, and a full worker's load cannot scatter upwards.
    """
    usual = int(cpu.argmax())
    by_noise = math.sqrt(float(noise.mean())) * float(highest_of(len(cpu)))
    by_noise *= 1.0 - float(hottest_cpu[usual])
    apart = max(float(hottest_cpu[usual] - cpu[usual]) - max(by_noise, 0.0), 0.0)
    return np.asarray(apart / np.maximum(cpu[usual] - idles, max(apart, LEAST_BUSY)))


def _idle_shares(idle: IdleShare, cpu: Values) -> Values:
    """Return idle shares to try, ascending: close together around what is believed, and below the workers' CPU."""
    top = float(cpu.sum()) / len(cpu)
    below = top - LEAST_BUSY * max(top / LEAST_BUSY, 2.0) ** ORDERS
    found = np.minimum(np.maximum(np.concatenate([idle.cpu + idle.sd * AROUND, below]), 0.0), 0.9)
    found.sort()
    return np.asarray(found[np.concatenate([[True], found[1:] > found[:-1]])])


def _per_record(common: Values, precision: Values, least: float) -> Values:
    """Return the CPU per record to try at each idle share, ascending rows, shape ``(idle shares, points)``."""
    deviation = 1.0 / np.sqrt(precision)
    highest = np.maximum(common[:, None] + 3.0 * deviation, 2.0 * least)
    wide = least * (highest / least) ** ORDERS
    near = common[:, None] + deviation * AROUND
    found = np.maximum(np.concatenate([wide, near], axis=1), least)
    found.sort(axis=1)
    return np.asarray(found)


def _widths(values: Values) -> Values:
    """Return the length that each of ascending values stands for along the last axis (trapezoid rule)."""
    halves = 0.5 * (values[..., 1:] - values[..., :-1])
    widths = np.zeros_like(values)
    widths[..., :-1] = halves
    widths[..., 1:] += halves
    return widths
