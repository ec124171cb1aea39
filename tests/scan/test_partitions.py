"""How many partitions a source has: by the job's own consumers, else by the brokers' topic."""

import numpy as np
import pytest

from perdix.scan.finding import ENGINES
from perdix.scan.scanning import with_partitions
from perdix.telemetry.prometheus_answers import PrometheusError
from perdix.telemetry.queries import load_queries
from perdix.telemetry.series import Series
from perdix.twin.promql import parse
from tests.scan.made import found_job

NOW_S = 1_790_000_000.0
FLINK = load_queries("flink")
SELECTOR = {"job_name": "orders", "namespace": "shop"}


class Server:
    """Answers what is asked of consumers, and what is asked of topics."""

    def __init__(self, of_jobs=(), of_topics=(), refused=False):
        self.of_jobs, self.of_topics, self.refused = of_jobs, of_topics, refused

    def query_range(self, promql, start_s, end_s, step_s, *, lookback_s=None):
        if self.refused:
            raise PrometheusError("rejected", "too many series")
        rows = self.of_topics if "kafka_topic_partitions" in promql else self.of_jobs
        return [Series("", None, np.array([round(1_000 * end_s)]), np.array([value]), labels) for labels, value in rows]


def partitions(server, **changes):
    (job,), notes = with_partitions(server, FLINK, [found_job(**changes)], NOW_S)
    return job.partitions, notes


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_asks_in_promql(engine):
    jobs = load_queries(engine).jobs
    parse(jobs.partitions_of_topics)
    if jobs.consumed_partitions() is not None:
        parse(jobs.consumed_partitions())


def test_what_its_consumers_report_counts_before_what_brokers_say():
    server = Server([({**SELECTOR, "topic": "words"}, 8.0)], [({"topic": "orders"}, 12.0)])
    assert partitions(server) == (8, ())


def test_without_them_its_topic_tells():
    assert partitions(Server((), [({"topic": "clicks"}, 3.0), ({"topic": "orders"}, 12.0)])) == (12, ())


def test_nothing_is_said_of_a_job_whose_topic_is_not_known_or_that_reads_several():
    topics = [({"topic": "orders"}, 12.0)]
    assert partitions(Server((), topics), topic=None) == (None, ())
    several = [({**SELECTOR, "topic": "a"}, 8.0), ({**SELECTOR, "topic": "b"}, 2.0)]
    assert partitions(Server(several, topics)) == (None, ())


@pytest.mark.parametrize("count", [0.0, -1.0, np.nan, np.inf, 1e300])
def test_a_count_that_cannot_be_is_none(count):
    assert partitions(Server((), [({"topic": "orders"}, count)])) == (None, ())


def test_a_refusal_is_told_and_keeps_no_job_back():
    found, notes = partitions(Server(refused=True))
    assert found is None
    assert "is unknown" in notes[0]
    assert with_partitions(Server(refused=True), FLINK, [], NOW_S) == ((), ())
