"""How long nothing rescales after a rescale: as long as the job's own restarts ask for."""

import pytest

from perdix.control.decide import grace_of
from perdix.models.recovery.downtime import Downtimes
from perdix.settings.stream_job import PrometheusSource, StreamJob


def job(scrape_interval_s: float | None = None, **settings: float) -> StreamJob:
    source = None
    if scrape_interval_s is not None:
        source = PrometheusSource(url="http://127.0.0.1:9090", scrape_interval_s=scrape_interval_s)
    return StreamJob(name="orders", prometheus=source, **settings)


@pytest.mark.parametrize(
    ("out_s", "in_s", "grace_s"),
    [
        (30.0, 15.0, 120.0),  # what is assumed before a restart was seen
        (45.0, 18.0, 120.0),
        (13.0, 9.0, 65.0),
        (2.5, 8.0, 40.0),
        (2.5, 2.0, 30.0),  # not within Flink's own cooldown
    ],
)
def test_it_is_as_long_as_the_restarts_that_were_seen_ask_for(out_s: float, in_s: float, grace_s: float) -> None:
    assert grace_of(job(), Downtimes.assumed(out_s, in_s)) == grace_s


def test_it_is_no_shorter_than_what_a_rate_is_taken_over() -> None:
    assert grace_of(job(scrape_interval_s=15.0), Downtimes.assumed(2.0, 2.0)) == 60.0


@pytest.mark.parametrize("grace_s", [0.0, 20.0, 900.0])
def test_what_the_file_says_stands(grace_s: float) -> None:
    assert grace_of(job(grace_s=grace_s), Downtimes()) == grace_s
