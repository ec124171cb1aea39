"""What a real Flink 2.2 was seen to report of its sources; over real HTTP, as a job is read live."""

from __future__ import annotations

import numpy as np
import pytest

from perdix.settings.access import HttpAccess
from perdix.telemetry.metrics import THROUGHPUT
from perdix.telemetry.prometheus import Prometheus
from perdix.telemetry.queries import load_queries
from tests.scan.raw_prometheus import SCRAPED_S, RawPrometheus

NOW_S = 1_790_000_000.0
OPERATOR = "flink_taskmanager_job_task_operator"
JOB = {"job_name": "pay"}


def counted(per_s):
    return np.cumsum(np.full(20, SCRAPED_S * per_s))


def source(name, worker=1, **counters):
    labels = {**JOB, "tm_id": f"tm-{worker}", "operator_name": f"Source:_{name}", "subtask_index": str(worker)}
    return [(f"{OPERATOR}_{counter}", labels, counted(per_s)) for counter, per_s in counters.items()]


def throughputs(raw):
    queries, server = load_queries("flink"), RawPrometheus(NOW_S, raw)
    with Prometheus(HttpAccess(url=server.url)) as client:
        pulled = client.pull(queries, JOB, NOW_S - 300.0, NOW_S, 60.0, metrics=(THROUGHPUT.name,))
    server.close()
    return {series.worker: series.values[-1] for series in pulled}


@pytest.mark.parametrize(
    ("raw", "per_s"),
    [
        (source("kafka", numRecordsIn=60.0, numRecordsOut=50.0), 60.0),  # it may filter what it read
        (source("kafka", numRecordsIn=60.0), 60.0),
        (source("kafka", numRecordsIn=0.0), 0.0),
        (source("kinesis", numRecordsIn=0.0, numRecordsOut=40.0), 40.0),
        (
            source("kafka", numRecordsIn=60.0, numRecordsOut=60.0)
            + source("kinesis", numRecordsIn=0.0, numRecordsOut=40.0),
            100.0,
        ),
    ],
    ids=["counts what it reads", "without what it sends", "reads nothing", "counts what it sends only", "one of each"],
)
def test_a_source_that_does_not_count_what_it_reads_is_read_by_what_it_sends(raw, per_s):
    """Sources of the old API, and those of the new one that hand records over by themselves."""
    assert throughputs(raw) == {"tm-1": per_s}
