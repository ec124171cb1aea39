"""From a window of samples to what each vertex must, and can, process."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from perdix.policies.flink_autoscaler.demand import Demand, band_per_s
from perdix.policies.flink_autoscaler.graph import Graph, Measured, Samples, Vertex
from perdix.policies.flink_autoscaler.options import FlinkAutoscalerOptions
from perdix.policies.flink_autoscaler.window import average, rate


@dataclass(frozen=True)
class Evaluated:
    """What a vertex must and can process, records/s."""

    demand: Demand
    # Its true processing rate: what it would process if it never waited. Infinite where nothing came in
    true_per_s: float
    # more_below_per_s, less_above_per_s: the band in which the true rate may lie without anything being done
    more_below_per_s: float
    less_above_per_s: float

    @property
    def outside(self) -> bool:
        """Whether the vertex is used too much or too little."""
        return self.true_per_s < self.more_below_per_s or self.true_per_s > self.less_above_per_s


def evaluate(
    graph: Graph, samples: Samples, options: FlinkAutoscalerOptions, restart_s: float
) -> Mapping[str, Evaluated]:
    """Evaluate every vertex over the whole of ``samples``.

    What a vertex must process is what the sources must, times the share that reaches it: so a scale-out upstream does
    not surprise what lies downstream.
    """
    series = _Series(samples)
    backlogged = any(_works_off_backlog(series, vertex, options) for vertex in graph if vertex.is_source)
    demands: dict[str, Demand] = {}
    found: dict[str, Evaluated] = {}
    for vertex in graph:
        demand = _of_source(series, vertex, options) if vertex.is_source else _of_inputs(series, graph, vertex, demands)
        demands[vertex.name] = demand
        true_per_s = _rounded(true_rate(series.measured(vertex), series.times_s, vertex, options))
        more, less = band_per_s(demand, options, restart_s, backlogged=backlogged)
        found[vertex.name] = Evaluated(demand, true_per_s, more, less)
    return found


def true_rate(measured: list[Measured], times_s: list[float], vertex: Vertex, options: FlinkAutoscalerOptions) -> float:
    """Return the true processing rate of a vertex: from busy time, or as observed where busy time flatters it."""
    busy = _from_busy_time(measured, times_s, vertex, options)
    observed = average((sample.observed_per_s for sample in measured), options.observed_least)
    if math.isnan(observed):
        return busy
    if not math.isfinite(busy) or busy > observed * (1.0 + options.observed_switch):
        return observed
    return busy


def _from_busy_time(
    measured: list[Measured], times_s: list[float], vertex: Vertex, options: FlinkAutoscalerOptions
) -> float:
    counted_per_s = rate(zip(times_s, (sample.records_in for sample in measured), strict=True))
    if options.busy_aggregator == "AVG":
        worked_ms = zip(times_s, (sample.busy_ms for sample in measured), strict=True)
        processed_per_s, share = counted_per_s, rate(worked_ms) / vertex.parallelism / 1_000.0
    else:
        share = average(sample.load for sample in measured)
        metered_per_s = math.nan if vertex.is_source else average(sample.in_per_s for sample in measured)
        processed_per_s = counted_per_s if math.isnan(metered_per_s) else metered_per_s
    if processed_per_s == 0 or share == 0:
        return math.inf
    return processed_per_s / share


class _Series:
    """Columns of a window."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples
        self.times_s = [sample.at_s for sample in samples]

    def measured(self, vertex: Vertex) -> list[Measured]:
        return [sample.vertices[vertex.name] for sample in self._samples]

    def rate(self, name: str, column: str) -> float:
        return rate((sample.at_s, getattr(sample.vertices[name], column)) for sample in self._samples)

    def lag(self, name: str) -> float:
        lag = self._samples[-1].vertices[name].lag if self._samples else math.nan
        return 0.0 if math.isnan(lag) else lag


def _works_off_backlog(series: _Series, vertex: Vertex, options: FlinkAutoscalerOptions) -> bool:
    lag, in_per_s = series.lag(vertex.name), series.rate(vertex.name, "records_in")
    return lag > options.backlog_after_s * in_per_s  # never where the rate is not known


def _of_source(series: _Series, vertex: Vertex, options: FlinkAutoscalerOptions) -> Demand:
    in_per_s, growth_per_s = (series.rate(vertex.name, column) for column in ("records_in", "lag"))
    arriving_per_s = in_per_s + (0.0 if math.isnan(growth_per_s) else growth_per_s)
    target_per_s = 0.0 if arriving_per_s < 0 else arriving_per_s
    catch_up_per_s = series.lag(vertex.name) / options.catch_up_s if options.catch_up_s > 0 else 0.0
    return Demand(_rounded(target_per_s), _rounded(catch_up_per_s))


def _of_inputs(series: _Series, graph: Graph, vertex: Vertex, demands: Mapping[str, Demand]) -> Demand:
    target_per_s = catch_up_per_s = 0.0
    for name in vertex.inputs:
        ratio = _share_passed_on(series, graph, name, vertex)
        target_per_s += demands[name].target_per_s * ratio
        catch_up_per_s += demands[name].catch_up_per_s * ratio
    return Demand(_rounded(target_per_s), _rounded(catch_up_per_s))


def _share_passed_on(series: _Series, graph: Graph, upstream: str, vertex: Vertex) -> float:
    """Return how many records reach ``vertex`` from ``upstream`` per record that goes into that."""
    in_per_s, edge_per_s = series.rate(upstream, "records_in"), _edge_per_s(series, graph, upstream, vertex)
    return 0.0 if in_per_s <= 0 or edge_per_s <= 0 else edge_per_s / in_per_s


def _edge_per_s(series: _Series, graph: Graph, upstream: str, vertex: Vertex) -> float:
    """Return records/s along one edge: what comes in less what is known to come from elsewhere, else what goes out."""
    others = [name for name in vertex.inputs if name != upstream]
    if all(len(graph.outputs[name]) == 1 for name in others):
        from_others = math.fsum(series.rate(name, "records_out") for name in others)
        return series.rate(vertex.name, "records_in") - from_others
    return series.rate(upstream, "records_out")


def _rounded(value: float) -> float:
    """Round to three decimals as the original stores its metrics, but never down to nothing."""
    if not math.isfinite(value):
        return value
    nearest = math.floor(value * 1_000.0 + 0.5) / 1_000.0
    return nearest if nearest != 0 else value
