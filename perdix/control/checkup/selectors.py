"""Which label of a selector is wrong, and what it should be: asked of the server where a query finds nothing."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from perdix.telemetry.metrics import WORKLOAD
from perdix.telemetry.prometheus import Prometheus
from perdix.telemetry.prometheus_answers import PrometheusError
from perdix.telemetry.queries import EngineQueries
from perdix.telemetry.query_text import duration, matchers, rate_window_s

TOPIC: Final = "topic"
FITS: Final = 0.1  # relative difference of rates up to which a topic may be the one that a job reads
LISTED: Final = 5
COUNTED_S: Final = 600.0  # over which samples are counted, to know how often a job is scraped
LASTED: Final = 1.5  # times the samples of half of that; where fewer are in all of it, series are younger
LESS_OFTEN: Final = 2.0  # times the interval of the job file, from which that is why rates find too little


@dataclass(frozen=True)
class Server:
    """A server that answers, and when it is asked: ``start_s`` to ``end_s``, epoch seconds, every ``step_s``."""

    client: Prometheus
    queries: EngineQueries
    start_s: float
    end_s: float
    step_s: float
    late: Callable[[], bool] = lambda: False  # whether it is asked no more

    @property
    def window_s(self) -> float:
        """Range of ``rate()``, as a tick asks for it."""
        return rate_window_s(self.step_s)

    def series(self, promql: str) -> Sequence[tuple[Mapping[str, str], float]]:
        """Return labels and mean of each series that goes on; none where the server refuses or the time is over.

        The name of a series is among its labels.

        A hint is worth neither an error nor waiting.
        """
        if self.late():
            return ()
        try:
            found = self.client.query_range(promql, self.start_s, self.end_s, self.step_s, lookback_s=2.0 * self.step_s)
        except PrometheusError:
            return ()
        going_on = [
            stream for stream in found if len(stream) and stream.times_ms[-1] >= 1_000.0 * (self.end_s - self.step_s)
        ]
        return [
            ({"__name__": stream.metric, **stream.labels}, float(np.nanmean(stream.values)))
            for stream in going_on
            if np.isfinite(stream.values).any()
        ]


def wrong_label(server: Server, metric: str, selector: Mapping[str, str]) -> str:
    """Return the fix of the one label without which a query finds series; empty where no single one is to blame."""
    queries = server.queries
    text = queries.text(metric, selector)
    kept = text.kept(selector)
    for label in kept:
        values = {
            labels.get(label, "")
            for labels, _ in server.series(queries.for_each_of(label, metric, selector, server.window_s))
        }
        if values:
            wrong = f"no series has {label} '{selector[label]}'"
            return f"{wrong}{_instead(label, kept[label], sorted(filter(None, values)), label in text.underscored)}"
        rest = {name: value for name, value in kept.items() if name != label}
        if label not in text.needs and rest and server.series(queries.rendered(text, rest, server.window_s)):
            return f"its series have no label '{label}': take it out of prometheus.selector"
    return ""


def raw_series(server: Server, selector: Mapping[str, str], *, counted: bool = False) -> str | None:
    """Return the selector of the series that each job of the engine has, of this job; ``None`` where none is known.

    ``counted``: those of which samples are counted.
    """
    naming = server.queries.jobs
    series = "" if naming is None else (counted and naming.counted) or naming.series
    if not series.endswith("}"):
        return None
    theirs = {name: value for name, value in selector.items() if name != TOPIC}
    return f"{series[:-1]}{', ' if theirs else ''}{matchers(theirs)}}}"


def wrong_interval(server: Server, selector: Mapping[str, str]) -> str:
    """Return the fix of a job that is scraped less often than its file says, so that rates find too few samples."""
    raw, naming = raw_series(server, selector, counted=True), server.queries.jobs
    if raw is None or naming is None:
        return ""

    def most_in(window_s: float) -> float:
        counts = server.series(f"max by ({naming.names[0]}) (count_over_time({raw}[{duration(window_s)}]))")
        return max((count for _, count in counts), default=0.0)

    most = most_in(COUNTED_S)
    every_s = COUNTED_S / most if most > 0 else 0.0
    if every_s < LESS_OFTEN * server.step_s or most < LASTED * most_in(COUNTED_S / 2.0):
        return ""
    return f"is it scraped every {every_s:.0f} s? Then set prometheus.scrape_interval_s to that"


def unreported_topics(server: Server, metric: str, selector: Mapping[str, str]) -> str:
    """Return the fix of a load that is asked for by topic, of a server that knows the rate of none; else empty."""
    if metric != WORKLOAD.name or not selector.get(TOPIC):
        return ""
    promql = server.queries.for_each(TOPIC, metric, server.window_s)
    if promql is None or server.series(promql) or server.late():
        return ""
    return (
        "no topic has a rate here: scrape the brokers' JMX exporter or kafka_exporter; another exporter's records by "
        f"the label '{TOPIC}' go to {metric} in conf/queries/{server.queries.engine}.yaml"
    )


def fitting_topic(server: Server, consumed_per_s: float, present: str) -> str:
    """Return the one topic whose rate a job consumed (records/s); empty where none fits, or several."""
    promql = server.queries.for_each(TOPIC, WORKLOAD.name, server.window_s)
    found = () if promql is None else server.series(promql)
    fitting = {
        labels[TOPIC]
        for labels, rate in found
        if labels.get(TOPIC, present) != present and abs(rate - consumed_per_s) <= FITS * max(rate, consumed_per_s)
    }
    return fitting.pop() if len(fitting) == 1 else ""


def _instead(label: str, value: str, values: Sequence[str], underscored: bool) -> str:
    """Return what a label is to be set to; ``underscored``: its series have each '.' of its values as '_'."""
    close = difflib.get_close_matches(value, values, n=1)
    if not values:  # the query does not name the label
        return f": correct prometheus.selector.{label}"
    if close or len(values) == 1:
        nearest = (close or values)[0]
        dots = " (a '_' may be a '.')" if underscored and "_" in nearest else ""
        return f": set prometheus.selector.{label} to '{nearest}'{dots}"
    more = f" and {len(values) - LISTED} more" if len(values) > LISTED else ""
    return f"; there are {', '.join(values[:LISTED])}{more}: correct prometheus.selector.{label}"
